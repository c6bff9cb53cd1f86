// The timeline: who held what when, from the answer of `events.timeline`. It explains fencing by itself: a lease that ran
// out is hatched, the next grant has the next epoch, and the late write hangs on a dashed line that ends beside it.
// How grants ended, what marks and shapes mean, and what lanes are called comes with the data (`web/timeline.py`): the
// list below the picture says the same.
import { LETTER, SHAPES, clock, draw, fits, html, lasting, palette } from "./drawing.js";

const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
const ROW = 26, GHOST = 20, PAD = 8, AXIS = 30; // heights
const FEW = 40; // lanes that are drawn unless somebody asks for more
const MARGIN = 600; // pixels above and below the window in which lanes are drawn
const HELP =
  "Timeline: arrow keys go from grant to grant, plus and minus zoom, Shift and arrow keys move, 0 shows all";
const HINT = "Point at a grant or a mark, or go there with the arrow keys: here is what it was.";
function legend(data) {
  const shown = new Set(data.marks.map((mark) => mark.what));
  for (const span of data.spans) shown.add(late(span) ? "lapsed" : span.how);
  const items = data.legend.filter(([what]) => shown.has(what)).map(([what, words]) =>
    html("li", {}, draw("svg", { width: 20, height: 18, "aria-hidden": "true" }, SHAPES[what](10, 9)), words));
  return html("ul", { className: "legend" }, ...items);
}

/** Whether a grant outlived its lease. A job's heartbeats renew it without an event, so of a job nothing is known. */
const late = (span) => (span.how === "expired" || span.how === "lapsed") && span.until > 0;

/** Until when a grant is known to have lasted. */
const stops = (span, { now, end }) => span.to || (span.how === "later" ? end : now);

// ── Timeline ────────────────────────────────────────────────────────────────────────────────────────────────────

const views = new WeakMap(); // the element of each timeline: where its reader has zoomed to

/** Draw who held what when into an element. `data` is the answer of `events.timeline` with the words for it (`in_words`
 *  in `web/timeline.py`); drawn again, the view stays. */
export function timeline(el, data, { by = "thing", link = () => null } = {}) {
  const view = views.get(el) ?? { by, all: false, whole: true };
  views.set(el, view);
  Object.assign(view, { el, data, link });
  if (!view.svg) build(view);
  view.extent = extent(data);
  view.colours = palette([...data.spans, ...data.marks].map((each) => each.agent));
  view.lanes = {};
  if (view.whole) [view.from, view.to] = first(view.extent, data);
  view.legend.replaceChildren(...legend(data).children);
  render(view);
  return view;
}

function extent({ spans, marks, end }) {
  let [from, to] = [Infinity, end];
  for (const span of spans) if (span.from) from = Math.min(from, span.from);
  for (const each of spans) if (!each.from && each.to) from = Math.min(from, each.to - 1);
  for (const mark of marks) [from, to] = [Math.min(from, mark.at), Math.max(to, mark.at)];
  if (from === Infinity) from = to - 60;
  const margin = Math.max(1, (to - from) * 0.03);
  return [from - margin, to + margin];
}

/** What to show first: everything, or of a long window the last hour in which something happened. */
function first([from, to], { spans, marks, end }) {
  if (to - from < 6 * 3600) return [from, to];
  const last = Math.max(...spans.map((s) => s.to || s.from || 0), ...marks.map((m) => m.at), 0);
  return [Math.max(from, Math.min(last, end) - 3600), to];
}

function build(view) {
  const { el } = view;
  const button = (label, name, act) => {
    const made = html("button", { type: "button", textContent: label, title: name, onclick: act });
    made.setAttribute("aria-label", name);
    return made;
  };
  const mode = (by, label, name) => button(label, name, () => { view.by = by; render(view); });
  view.modes = {
    thing: mode("thing", "By task and resource", "Lanes for tasks and resources"),
    agent: mode("agent", "By agent", "Lanes for agents"),
  };
  view.svg = draw("svg", { class: "timeline", role: "group", "aria-label": HELP });
  view.note = html("p", { className: "chosen", textContent: HINT });
  view.note.setAttribute("aria-live", "polite");
  view.legend = html("ul", { className: "legend" });
  view.more = html("button", { type: "button", className: "more", onclick: () => { view.all = true; render(view); } });
  el.replaceChildren(
    html("div", { className: "drawing-tools" }, view.modes.thing, view.modes.agent, html("span", { className: "gap" }),
      button("+", "Zoom in", () => zoom(view, 0.5)), button("−", "Zoom out", () => zoom(view, 2)),
      button("◂", "Earlier", () => pan(view, -0.5)), button("▸", "Later", () => pan(view, 0.5)),
      button("All", "Show all", () => whole(view))),
    view.svg, view.more, view.note, view.legend);
  listen(view);
}

function listen(view) {
  const { svg } = view;
  svg.addEventListener("wheel", (event) => {
    const zooms = event.ctrlKey || event.metaKey;
    if (!zooms && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return; // the page scrolls
    event.preventDefault();
    if (zooms) zoom(view, Math.exp(event.deltaY / 300), timeAt(view, event));
    else pan(view, event.deltaX / view.width);
  }, { passive: false });
  let drag = null;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button === 0) drag = { x: event.clientX, from: view.from, to: view.to, moved: false };
  });
  svg.addEventListener("pointermove", (event) => {
    if (!drag || !(event.buttons & 1)) return;
    const shift = ((drag.x - event.clientX) / view.width) * (drag.to - drag.from);
    if (!drag.moved && Math.abs(drag.x - event.clientX) < 4) return;
    drag.moved = true;
    show(view, drag.from + shift, drag.to + shift);
  });
  svg.addEventListener("click", (event) => { if (drag?.moved) event.preventDefault(); drag = null; }, true);
  svg.addEventListener("keydown", (event) => {
    const closer = () => zoom(view, 0.5);
    const keys = { "+": closer, "=": closer, "-": () => zoom(view, 2), 0: () => whole(view) };
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || !(by || keys[event.key])) return;
    event.preventDefault();
    if (keys[event.key]) keys[event.key]();
    else if (event.shiftKey && by[1]) pan(view, by[1] * 0.25);
    else step(view, ...by);
  });
  svg.addEventListener("focusin", (event) => choose(view, event.target.closest("[data-key]")));
  svg.addEventListener("pointerover", (event) => {
    const over = event.target.closest("[data-key]");
    if (over) view.note.textContent = over.getAttribute("aria-label");
  });
  addEventListener("scroll", () => {
    if (Math.abs(scrollY - view.scrolled) > MARGIN / 2) show(view, view.from, view.to, view.whole);
  }, { passive: true });
  new ResizeObserver(() => { if (svg.clientWidth !== view.drawn) render(view); }).observe(view.el);
}

function timeAt(view, event) {
  const x = event.clientX - view.svg.getBoundingClientRect().left - view.left;
  return view.from + (x / view.width) * (view.to - view.from);
}

function show(view, from, to, whole = false) {
  const [low, high] = view.extent;
  const length = Math.min(Math.max(to - from, 0.2), (high - low) * 1.2);
  const start = Math.min(Math.max(from, low - length * 0.5), high - length * 0.5);
  if (!whole) [view.from, view.to, view.whole] = [start, start + length, false];
  view.frame ??= requestAnimationFrame(() => { view.frame = null; render(view); });
}

function zoom(view, factor, at = (view.from + view.to) / 2) {
  show(view, at - (at - view.from) * factor, at + (view.to - at) * factor);
}

function pan(view, share) {
  const by = (view.to - view.from) * share;
  show(view, view.from + by, view.to + by);
}

function whole(view) {
  [view.from, view.to] = view.extent;
  view.whole = true;
  render(view);
}

function choose(view, target) {
  if (!target) return;
  view.key = target.dataset.key;
  for (const each of view.svg.querySelectorAll("[data-key][tabindex='0']")) each.setAttribute("tabindex", "-1");
  target.setAttribute("tabindex", "0");
  view.note.textContent = target.getAttribute("aria-label");
}

/** Move the focus to the next grant or mark in the lane, or to the nearest one of the lane above or below. */
function step(view, down, right) {
  const at = view.places.findIndex((place) => place.key === view.key);
  const here = view.places[Math.max(0, at)];
  if (!here) return;
  const lanes = [...new Set(view.places.map((place) => place.lane))];
  const lane = down ? lanes[lanes.indexOf(here.lane) + down] : here.lane;
  const near = view.places.filter((place) => place.lane === lane).sort((a, b) => a.at - b.at);
  const nearest = () => near.sort((a, b) => Math.abs(a.at - here.at) - Math.abs(b.at - here.at))[0];
  const next = down ? nearest() : near[near.indexOf(here) + right];
  if (!next) return;
  view.key = next.key;
  const half = (view.to - view.from) / 2;
  if (next.at < view.from || next.at > view.to) show(view, next.at - half, next.at + half);
  if (next.y !== undefined) { // its lane is not drawn yet
    scrollBy({ top: view.svg.getBoundingClientRect().top + next.y - innerHeight / 2 });
    show(view, view.from, view.to, view.whole);
  }
  if (view.frame) { cancelAnimationFrame(view.frame); view.frame = null; render(view); }
  view.svg.querySelector(`[data-key="${CSS.escape(next.key)}"]`)?.focus();
}

/** The lanes to draw: name, spans (each with its row) and marks; late writes on top, then what happened last. */
function lanesOf(view) {
  const { lanes, spans, marks } = view.data;
  const found = new Map();
  const laneOf = (each) => {
    const thing = lanes[each.lane], { project, of } = thing, { agent } = each;
    // The same name in two projects is two agents.
    const key = view.by === "agent" ? JSON.stringify([project, agent]) : each.lane;
    const about = view.by === "agent" ? { agent, project, of, title: agent || "somebody" } : thing;
    if (!found.has(key)) found.set(key, { key, about, title: title(about), spans: [], marks: [], last: 0 });
    return found.get(key);
  };
  spans.forEach((span, i) => {
    const lane = laneOf(span), key = `s${span.lane}.${span.epoch}.${i}`, start = span.from || view.extent[0];
    const stop = stops(span, view.data);
    lane.spans.push({ ...span, key, start, stop, thing: lanes[span.lane] });
    lane.last = Math.max(lane.last, stop);
  });
  marks.forEach((mark, i) => {
    const lane = laneOf(mark);
    lane.marks.push({ ...mark, key: `m${mark.lane}.${i}`, thing: lanes[mark.lane] });
    lane.last = Math.max(lane.last, mark.at);
  });
  for (const lane of found.values()) pack(lane);
  return [...found.values()].sort((a, b) => b.ghosts - a.ghosts || b.last - a.last || a.title.localeCompare(b.title));
}

/** What a thing or an agent is called; its project follows if the page has several. */
function title({ title, of }) {
  return of ? `${title} · ${of}` : title;
}

/** Put spans that overlap into rows of their own, and find the grant that each late write was made with. */
function pack(lane) {
  const ends = [];
  for (const span of lane.spans.sort((a, b) => a.start - b.start)) {
    let row = ends.findIndex((end) => end <= span.start + 1e-6);
    if (row < 0) row = ends.length;
    [span.row, ends[row]] = [row, span.stop];
  }
  lane.rows = Math.max(1, ends.length);
  for (const mark of lane.marks) {
    if (mark.what !== "fenced") continue;
    const those = lane.spans.filter((span) => span.lane === mark.lane);
    mark.of = those.find((span) => span.agent === mark.agent && span.epoch === mark.epoch);
    mark.now = those.find((span) => span !== mark.of && span.start <= mark.at && span.stop >= mark.at);
  }
  lane.ghosts = lane.marks.some((mark) => mark.what === "fenced") ? 1 : 0;
  lane.height = lane.rows * ROW + lane.ghosts * GHOST + 2 * PAD;
}

function render(view) {
  const { svg, data } = view;
  const wide = (view.drawn = svg.clientWidth || 800);
  const narrow = wide < 640;
  view.left = narrow ? 0 : Math.min(260, wide * 0.24);
  view.width = wide - view.left - 12;
  const lanes = (view.lanes[view.by] ??= lanesOf(view)), shown = view.all ? lanes : lanes.slice(0, FEW);
  const x = (at) => view.left + ((at - view.from) / (view.to - view.from)) * view.width;
  const focused = svg.contains(document.activeElement);
  const hatch = { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" };
  const parts = [draw("defs", {}, draw("pattern", hatch, draw("path", { d: "M0 0v6" })),
    draw("clipPath", { id: "window" }, draw("rect", { x: view.left, y: 0, width: view.width + 12, height: 1e5 })))];
  view.places = [];
  view.scrolled = scrollY;
  let y = AXIS;
  const inside = draw("g", { "clip-path": "url(#window)" }), names = draw("g", { class: "names" });
  const above = svg.getBoundingClientRect().top;
  for (const [i, lane] of shown.entries()) {
    const head = narrow ? 22 : 0, high = lane.height + head;
    if (i % 2) parts.push(draw("rect", { class: "stripe", x: 0, y, width: wide, height: high }));
    const shortened = fits(lane.title, narrow ? wide - 8 : view.left - 12);
    const at = { x: narrow ? 4 : 8, y: y + (narrow ? 16 : PAD + 17) };
    const label = draw("text", at, shortened, draw("title", {}, lane.title));
    const href = view.link(lane.about);
    names.append(href ? draw("a", { href }, label) : label);
    // Lanes far from what can be seen stay empty until somebody scrolls there: there may be thousands of spans.
    const near = above + y + high > -MARGIN && above + y < innerHeight + MARGIN;
    if (near) drawLane(view, lane, y + head + PAD, x, inside);
    else for (const each of [...lane.spans, ...lane.marks]) remember(view, lane, each, y);
    y += high;
  }
  parts.push(axis(view, x, y), inside, names);
  svg.setAttribute("height", y + 8);
  svg.setAttribute("viewBox", `0 0 ${wide} ${y + 8}`);
  svg.replaceChildren(...parts);
  for (const [by, made] of Object.entries(view.modes)) made.setAttribute("aria-pressed", view.by === by);
  view.more.hidden = shown.length === lanes.length;
  view.more.textContent = `Show ${lanes.length - shown.length} more`;
  const chosen = svg.querySelector(`[data-key="${CSS.escape(view.key ?? "")}"]`) ?? svg.querySelector("[data-key]");
  chosen?.setAttribute("tabindex", "0");
  if (focused && view.key) chosen?.focus({ preventScroll: true });
  const empty = !data.spans.length && !data.marks.length;
  if (empty || view.empty) view.note.textContent = empty ? data.nobody : HINT;
  view.empty = empty;
}

function axis(view, x, bottom) {
  const room = (view.to - view.from) / Math.max(1, view.width / 90);
  const step = STEPS.find((each) => each >= room) ?? Math.ceil(room / 86400) * 86400;
  const group = draw("g", { class: "axis", "aria-hidden": "true" });
  const shift = step >= 3600 ? new Date(view.from * 1000).getTimezoneOffset() * 60 : 0;
  for (let at = Math.ceil((view.from - shift) / step) * step + shift; at <= view.to; at += step) {
    group.append(draw("path", { d: `M${x(at)} ${AXIS - 6}V${bottom}` }));
    if (x(at) + 50 < view.left + view.width + 12) group.append(draw("text", { x: x(at) + 3, y: 16 }, clock(at, step)));
  }
  const now = x(view.data.now);
  const seen = now >= view.left && now <= view.left + view.width + 12;
  if (seen) group.append(draw("path", { class: "now", d: `M${now} ${AXIS - 8}V${bottom}` }));
  return group;
}

/** Remember where something is, for the arrow keys; `y` is given if it is not drawn. */
function remember(view, lane, each, y) {
  view.places.push({ key: each.key, lane: lane.key, at: each.start ?? each.at, y });
}

function place(view, lane, each, label, ...shapes) {
  remember(view, lane, each);
  const about = { "data-key": each.key, tabindex: -1, role: "img", "aria-label": label };
  return draw("g", { ...about, class: `place ${view.colours.get(each.agent)}` }, draw("title", {}, label), ...shapes);
}

function drawLane(view, lane, top, x, into) {
  const { from, to, data } = view;
  for (const span of lane.spans) {
    const until = span.how === "open" ? Math.max(span.stop, span.until) : span.stop;
    if (until < from || span.start > to) { remember(view, lane, span); continue; }
    const left = x(span.start), right = Math.max(left + 2, x(span.stop)), y = top + span.row * ROW;
    const box = { y: y + 1, height: ROW - 4 }, shapes = [];
    if (span.how === "open" && span.until > span.stop) {
      const rest = Math.max(0, Math.min(x(span.until), x(to) + 20) - right);
      shapes.push(draw("rect", { class: "lease", x: right, y: y + 3, width: rest, height: ROW - 8 }));
    }
    shapes.push(
      draw("rect", { ...box, class: `span ${span.how}`, x: left, width: right - left, rx: 4 }),
      draw("rect", { ...box, class: "edge", x: left, width: Math.min(4, right - left), rx: 2 }));
    if (late(span) && span.thing.kind !== "job" && span.until < span.stop) {
      const ran = Math.max(left, x(span.until));
      shapes.push(draw("rect", { ...box, class: "past", x: ran, width: right - ran }), SHAPES.lapsed(ran, y + ROW / 2 - 1));
    } else if (late(span)) shapes.push(SHAPES.lapsed(right, y + ROW / 2 - 1));
    if (span.how === "broken") shapes.push(SHAPES.broken(right, y + ROW / 2 - 1));
    const begin = Math.max(left, view.left) + 9;
    const end = late(span) && span.until < span.stop ? x(span.until) - 6 : right;
    const words = written(view.by === "agent" ? span.thing.title : span.agent, span.epoch, end - begin - 4);
    if (words) shapes.push(draw("text", { x: begin, y: y + ROW / 2 + 3.5 }, words));
    into.append(place(view, lane, span, (span.words ??= describe(span, data)), ...shapes));
  }
  for (const mark of lane.marks) drawMark(view, lane, mark, top, x, into);
}

/** What is written into a span: a name and its epoch, as far as there is room; the epoch matters most. */
function written(name, epoch, room) {
  const whole = `${name}  epoch ${epoch}`;
  if ((whole.length + 1) * LETTER < room) return whole;
  const short = fits(name, room - (`${epoch}`.length + 1) * LETTER);
  return short ? `${short} ${epoch}` : fits(`${epoch}`, room + 3);
}

function drawMark(view, lane, mark, top, x, into) {
  if (mark.at < view.from || mark.at > view.to) return remember(view, lane, mark);
  const at = x(mark.at), shapes = [];
  let y = top - 3;
  if (mark.what === "fenced") {
    y = top + lane.rows * ROW + GHOST / 2 - 1;
    if (mark.of) { // its holder went on as if it still had it: a dashed line from the end of its grant
      const end = x(mark.of.stop), low = top + mark.of.row * ROW + ROW - 3;
      const line = `M${end} ${low}Q${end} ${y} ${Math.min(end + 14, at)} ${y}H${at - 8}`;
      shapes.push(draw("path", { class: "ghost", d: line }));
      const up = mark.now && `M${at} ${y - 8}V${top + mark.now.row * ROW + ROW - 3}`;
      if (up) shapes.push(draw("path", { class: "bounce", d: up }));
    }
    const said = mark.now
      ? [`too late: writes epoch ${mark.epoch}, but it is ${mark.now.epoch} now`, `epoch ${mark.epoch} ≠ ${mark.now.epoch}`]
      : [`too late: epoch ${mark.epoch} has ended`];
    const words = said.find((each) => (each.length + 2) * LETTER < view.left + view.width - at);
    if (words) shapes.push(draw("text", { class: "why", x: at + 12, y: y + 4 }, words));
  }
  shapes.push(SHAPES[mark.what](at, y));
  if (mark.times > 1) shapes.push(draw("text", { class: "times", x: at + 8, y: y + 3 }, `×${mark.times}`));
  into.append(place(view, lane, mark, describeMark(mark), ...shapes));
}

function describe(span, data) {
  const parts = [`${span.agent || "somebody"} had ${title(span.thing)} as epoch ${span.epoch}`];
  const stop = stops(span, data), long = lasting(stop - span.from);
  parts.push(span.from ? `from ${clock(span.from, 1)} for ${long}` : "from before this window");
  if (span.renewed) parts.push(span.renewed === 1 ? "renewed once" : `renewed ${span.renewed} times`);
  if (late(span) && span.until < stop) parts.push(`its lease ran out at ${clock(span.until, 1)}`);
  parts.push(span.said + (span.note ? `: ${span.note}` : ""));
  return `${parts.join(", ")}.`;
}

function describeMark(mark) {
  const when = `${mark.times > 1 ? "last " : ""}at ${clock(mark.at, 1)}`;
  return `${mark.agent || "somebody"} ${mark.said}: ${title(mark.thing)}, epoch ${mark.epoch}, ${when}${mark.note ? `: ${mark.note}` : ""}.`;
}
