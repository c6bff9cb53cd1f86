// Pictures of time: who held what when (`timeline`), the life of one task (`life`), the last hour of a queue
// (`sparkline`). Everything is drawn with DOM calls into SVG: text of the board is only ever `textContent`, so it cannot
// become markup. Colours and fonts are in drawing.css.

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 8; // classes c0 … c7 of drawing.css
const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
const ROW = 26, GHOST = 20, PAD = 8, AXIS = 30, LETTER = 6.7, FEW = 40;

/** Make an SVG element with these attributes and children. */
export function draw(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Make an HTML element with these properties and children. */
function html(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

/** A class for the colour of each agent: by its name, or the next one that is free while there are enough. */
export function palette(agents) {
  const found = new Map(), taken = new Set();
  for (const agent of [...new Set(agents)].sort()) {
    let at = 7;
    for (const letter of agent) at = (at * 31 + letter.codePointAt(0)) % 9973;
    at %= COLOURS;
    if (found.size < COLOURS) while (taken.has(at)) at = (at + 1) % COLOURS;
    taken.add(at);
    found.set(agent, `c${at}`);
  }
  return found;
}

/** A duration in words: 4.2s, 3m05s, 2h10m. */
export function lasting(seconds) {
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(1)}s`;
  if (seconds < 60) return `${Math.round(seconds)}s`;
  const [big, small, units] = seconds < 3600 ? [60, 1, "ms"] : seconds < 86400 ? [3600, 60, "hm"] : [86400, 3600, "dh"];
  const rest = Math.floor((seconds % big) / small);
  return `${Math.floor(seconds / big)}${units[0]}${rest ? String(rest).padStart(2, "0") + units[1] : ""}`;
}

// Made once: to make one takes longer than to draw a span.
const TIMES = ["second", "minute"].map((least) => new Intl.DateTimeFormat([], { hourCycle: "h23", hour: "2-digit", minute: "2-digit", ...(least === "second" ? { second: "2-digit" } : {}) }));
const DAYS = new Intl.DateTimeFormat([], { day: "numeric", month: "short" });

function clock(at, step) {
  if (step >= 86400) return DAYS.format(at * 1000);
  const time = TIMES[step < 60 ? 0 : 1].format(at * 1000);
  return step < 1 ? `${time}.${Math.round((at % 1) * 10) % 10}` : time;
}

const fits = (text, width) => {
  const room = Math.floor(width / LETTER);
  return room >= text.length ? text : room > 5 ? `${text.slice(0, room - 1)}…` : "";
};

// ── Marks: each has a shape of its own, so that colour is never the only difference ─────────────────────────────

const SHAPES = {
  refused: (x, y) => draw("path", { class: "refused", d: `M${x - 5} ${y - 5}h10l-5 9z` }),
  lapsed: (x, y) => draw("path", { class: "lapsed", d: `M${x} ${y - 6}l6 6l-6 6l-6 -6z` }),
  fenced: (x, y) => draw("g", { class: "fenced" }, draw("circle", { cx: x, cy: y, r: 7 }), draw("path", { d: `M${x - 3.2} ${y - 3.2}l6.4 6.4m0 -6.4l-6.4 6.4` })),
  broken: (x, y) => draw("path", { class: "broken", d: `M${x - 2} ${y - 9}l5 6l-6 4l5 8` }),
  deadlocked: (x, y) => draw("path", { class: "deadlocked", d: `M${x - 3} ${y - 7}h6l4 4v6l-4 4h-6l-4 -4v-6z` }),
};
const LEGEND = {
  refused: "was refused: somebody else had it",
  lapsed: "the lease ran out; hatched: nobody had noticed yet",
  fenced: "a late write with an old epoch: refused, nothing changed",
  broken: "taken away by a person",
  deadlocked: "a wait that could never end",
};
const ENDS = {
  open: "still has it", lapsed: "the lease has run out", released: "gave it back", completed: "completed it", failed: "failed",
  retrying: "failed, to be tried again", expired: "lost it when the lease ran out", broken: "it was broken", cancelled: "it was cancelled",
  transferred: "passed it on", restored: "a backup was restored", replaced: "lost it",
};

function legend(data) {
  const shown = new Set(data.marks.map((mark) => mark.what));
  for (const span of data.spans) if (late(span)) shown.add("lapsed"); else if (span.how === "broken") shown.add("broken");
  const items = Object.keys(LEGEND).filter((what) => shown.has(what)).map((what) =>
    html("li", {}, draw("svg", { width: 20, height: 18, "aria-hidden": "true" }, SHAPES[what](10, 9)), LEGEND[what]));
  return html("ul", { className: "legend" }, ...items);
}

/** Whether a grant outlived its lease. A job's heartbeats renew it without an event, so of a job nothing is known. */
const late = (span) => (span.how === "expired" || span.how === "lapsed") && span.until > 0;

// ── Timeline ────────────────────────────────────────────────────────────────────────────────────────────────────

const views = new WeakMap(); // the element of each timeline: where its reader has zoomed to

/** Draw who held what when into an element. `data` is the answer of `events.timeline`; drawn again, the view stays. */
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

function extent({ spans, marks, now }) {
  let [from, to] = [Infinity, now];
  for (const span of spans) if (span.from) from = Math.min(from, span.from);
  for (const each of spans) if (!each.from && each.to) from = Math.min(from, each.to - 1);
  for (const mark of marks) [from, to] = [Math.min(from, mark.at), Math.max(to, mark.at)];
  if (from === Infinity) from = to - 60;
  const margin = Math.max(1, (to - from) * 0.03);
  return [from - margin, to + margin];
}

/** What to show first: everything, or of a long window the last hour in which something happened. */
function first([from, to], { spans, marks, now }) {
  if (to - from < 6 * 3600) return [from, to];
  const last = Math.max(...spans.map((s) => s.to || s.from || 0), ...marks.map((m) => m.at), 0);
  return [Math.max(from, Math.min(last, now) - 3600), to];
}

function build(view) {
  const { el } = view;
  const button = (label, name, act) => {
    const made = html("button", { type: "button", textContent: label, title: name, onclick: act });
    made.setAttribute("aria-label", name);
    return made;
  };
  view.modes = Object.fromEntries(["thing", "agent"].map((by) =>
    [by, button(by === "thing" ? "By task and resource" : "By agent", "Lanes " + (by === "thing" ? "for tasks and resources" : "for agents"), () => { view.by = by; render(view); })]));
  view.svg = draw("svg", { class: "timeline", role: "group", "aria-label": "Timeline: arrow keys go from grant to grant, plus and minus zoom, Shift and arrow keys move, 0 shows all" });
  view.note = html("p", { className: "chosen", textContent: "Point at a grant or a mark, or go there with the arrow keys: here is what it was." });
  view.note.setAttribute("aria-live", "polite");
  view.legend = legend({ marks: [], spans: [] });
  view.more = html("button", { type: "button", className: "more", onclick: () => { view.all = true; render(view); } });
  el.replaceChildren(
    html("div", { className: "drawing-tools" }, view.modes.thing, view.modes.agent, html("span", { className: "gap" }),
      button("+", "Zoom in", () => zoom(view, 0.5)), button("−", "Zoom out", () => zoom(view, 2)),
      button("◂", "Earlier", () => pan(view, -0.5)), button("▸", "Later", () => pan(view, 0.5)), button("All", "Show all", () => whole(view))),
    view.svg, view.more, view.note, view.legend);
  listen(view);
}

function listen(view) {
  const { svg } = view;
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return; // the page scrolls
    event.preventDefault();
    if (event.ctrlKey || event.metaKey) zoom(view, Math.exp(event.deltaY / 300), timeAt(view, event));
    else pan(view, event.deltaX / view.width);
  }, { passive: false });
  let drag = null;
  svg.addEventListener("pointerdown", (event) => { if (event.button === 0) drag = { x: event.clientX, from: view.from, to: view.to, moved: false }; });
  svg.addEventListener("pointermove", (event) => {
    if (!drag || !(event.buttons & 1)) return;
    const shift = ((drag.x - event.clientX) / view.width) * (drag.to - drag.from);
    if (!drag.moved && Math.abs(drag.x - event.clientX) < 4) return;
    drag.moved = true;
    show(view, drag.from + shift, drag.to + shift);
  });
  svg.addEventListener("click", (event) => { if (drag?.moved) event.preventDefault(); drag = null; }, true);
  svg.addEventListener("keydown", (event) => {
    const keys = { "+": () => zoom(view, 0.5), "=": () => zoom(view, 0.5), "-": () => zoom(view, 2), 0: () => whole(view) };
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey || !(by || keys[event.key])) return;
    event.preventDefault();
    if (keys[event.key]) keys[event.key]();
    else if (event.shiftKey && by[1]) pan(view, by[1] * 0.25);
    else step(view, ...by);
  });
  svg.addEventListener("focusin", (event) => choose(view, event.target.closest("[data-key]")));
  svg.addEventListener("pointerover", (event) => { const over = event.target.closest("[data-key]"); if (over) view.note.textContent = over.getAttribute("aria-label"); });
  new ResizeObserver(() => { if (svg.clientWidth !== view.drawn) render(view); }).observe(view.el);
}

const timeAt = (view, event) => view.from + ((event.clientX - view.svg.getBoundingClientRect().left - view.left) / view.width) * (view.to - view.from);

function show(view, from, to) {
  const [low, high] = view.extent;
  const length = Math.min(Math.max(to - from, 0.2), (high - low) * 1.2);
  const start = Math.min(Math.max(from, low - length * 0.5), high - length * 0.5);
  [view.from, view.to, view.whole] = [start, start + length, false];
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
  const next = down ? near.sort((a, b) => Math.abs(a.at - here.at) - Math.abs(b.at - here.at))[0] : near[near.indexOf(here) + right];
  if (!next) return;
  view.key = next.key;
  if (next.at < view.from || next.at > view.to) show(view, next.at - (view.to - view.from) / 2, next.at + (view.to - view.from) / 2);
  if (view.frame) { cancelAnimationFrame(view.frame); view.frame = null; render(view); }
  view.svg.querySelector(`[data-key="${CSS.escape(next.key)}"]`)?.focus();
}

/** The lanes to draw: name, spans (each with its row) and marks; late writes on top, then what happened last. */
function lanesOf(view) {
  const { lanes, spans, marks, now } = view.data;
  const found = new Map();
  const of = (each) => {
    const key = view.by === "agent" ? each.agent || "?" : each.lane;
    if (!found.has(key)) found.set(key, { key, title: view.by === "agent" ? key : title(lanes[each.lane]), thing: view.by === "agent" ? null : lanes[each.lane], spans: [], marks: [], last: 0 });
    return found.get(key);
  };
  spans.forEach((span, i) => {
    const lane = of(span), until = span.to || now;
    lane.spans.push({ ...span, key: `s${span.lane}.${span.epoch}.${i}`, start: span.from || view.extent[0], stop: until, thing: lanes[span.lane] });
    lane.last = Math.max(lane.last, until);
  });
  marks.forEach((mark, i) => {
    const lane = of(mark);
    lane.marks.push({ ...mark, key: `m${mark.lane}.${i}`, thing: lanes[mark.lane] });
    lane.last = Math.max(lane.last, mark.at);
  });
  for (const lane of found.values()) pack(lane);
  return [...found.values()].sort((a, b) => b.ghosts - a.ghosts || b.last - a.last || String(a.title).localeCompare(String(b.title)));
}

const title = (lane) => (lane.number ? `#${lane.number} ${lane.name}` : lane.kind === "pool" ? `${lane.name} · slot ${lane.slot}` : lane.name);

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
    mark.of = lane.spans.find((span) => span.lane === mark.lane && span.agent === mark.agent && span.epoch === mark.epoch);
    mark.now = lane.spans.find((span) => span.lane === mark.lane && span.start <= mark.at && span.stop >= mark.at && span !== mark.of);
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
  const parts = [draw("defs", {}, draw("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, draw("path", { d: "M0 0v6" })),
    draw("clipPath", { id: "window" }, draw("rect", { x: view.left, y: 0, width: view.width + 12, height: 1e5 })))];
  view.places = [];
  let y = AXIS;
  const inside = draw("g", { "clip-path": "url(#window)" }), names = draw("g", { class: "names" });
  for (const [i, lane] of shown.entries()) {
    const head = narrow ? 22 : 0, high = lane.height + head;
    if (i % 2) parts.push(draw("rect", { class: "stripe", x: 0, y, width: wide, height: high }));
    const label = draw("text", { x: narrow ? 4 : 8, y: y + (narrow ? 16 : PAD + 17) }, fits(lane.title, narrow ? wide - 8 : view.left - 12), draw("title", {}, lane.title));
    const href = view.link(lane.thing ?? { agent: lane.key });
    names.append(href ? draw("a", { href }, label) : label);
    drawLane(view, lane, y + head + PAD, x, inside);
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
  if (!data.spans.length && !data.marks.length) view.note.textContent = "Nobody has held anything yet.";
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
  if (now >= view.left && now <= view.left + view.width + 12) group.append(draw("path", { class: "now", d: `M${now} ${AXIS - 8}V${bottom}` }));
  return group;
}

function place(view, lane, each, at, label, ...shapes) {
  view.places.push({ key: each.key, lane: lane.key, at });
  return draw("g", { "data-key": each.key, tabindex: -1, role: "img", "aria-label": label, class: `place ${view.colours.get(each.agent)}` }, draw("title", {}, label), ...shapes);
}

function drawLane(view, lane, top, x, into) {
  const { from, to, data } = view;
  for (const span of lane.spans) {
    const until = span.how === "open" ? Math.max(span.stop, span.until) : span.stop;
    if (until < from || span.start > to) { view.places.push({ key: span.key, lane: lane.key, at: span.start }); continue; }
    const left = x(span.start), right = Math.max(left + 2, x(span.stop)), y = top + span.row * ROW;
    const shapes = [];
    if (span.how === "open" && span.until > span.stop) shapes.push(draw("rect", { class: "lease", x: right, y: y + 3, width: Math.max(0, Math.min(x(span.until), x(to) + 20) - right), height: ROW - 8 }));
    shapes.push(draw("rect", { class: `span ${span.how}`, x: left, y: y + 1, width: right - left, height: ROW - 4, rx: 4 }), draw("rect", { class: "edge", x: left, y: y + 1, width: Math.min(4, right - left), height: ROW - 4, rx: 2 }));
    if (late(span) && lane.spans && span.thing.kind !== "job" && span.until < span.stop) {
      const ran = Math.max(left, x(span.until));
      shapes.push(draw("rect", { class: "past", x: ran, y: y + 1, width: right - ran, height: ROW - 4 }), SHAPES.lapsed(ran, y + ROW / 2 - 1));
    } else if (late(span)) shapes.push(SHAPES.lapsed(right, y + ROW / 2 - 1));
    if (span.how === "broken") shapes.push(SHAPES.broken(right, y + ROW / 2 - 1));
    const begin = Math.max(left, view.left) + 9, end = late(span) && span.until < span.stop ? x(span.until) - 6 : right;
    const name = view.by === "agent" ? title(span.thing) : span.agent, epoch = String(span.epoch), room = end - begin - 4;
    const short = fits(name, room - (epoch.length + 1) * LETTER);
    const words = (name.length + epoch.length + 8) * LETTER < room ? `${name}  epoch ${epoch}` : short ? `${short} ${epoch}` : fits(epoch, room + 3);
    if (words) shapes.push(draw("text", { x: begin, y: y + ROW / 2 + 3.5 }, words));
    into.append(place(view, lane, span, span.start, (span.words ??= describe(span, data.now)), ...shapes));
  }
  for (const mark of lane.marks) drawMark(view, lane, mark, top, x, into);
}

function drawMark(view, lane, mark, top, x, into) {
  if (mark.at < view.from || mark.at > view.to) { view.places.push({ key: mark.key, lane: lane.key, at: mark.at }); return; }
  const at = x(mark.at), shapes = [];
  let y = top - 3;
  if (mark.what === "fenced") {
    y = top + lane.rows * ROW + GHOST / 2 - 1;
    if (mark.of) { // its holder went on as if it still had it: a dashed line from the end of its grant to the late write
      const end = x(mark.of.stop), low = top + mark.of.row * ROW + ROW - 3;
      shapes.push(draw("path", { class: "ghost", d: `M${end} ${low}Q${end} ${y} ${Math.min(end + 14, at)} ${y}H${at - 8}` }));
      if (mark.now) shapes.push(draw("path", { class: "bounce", d: `M${at} ${y - 8}V${top + mark.now.row * ROW + ROW - 3}` }));
    }
    const said = mark.now ? [`too late: writes epoch ${mark.epoch}, but it is ${mark.now.epoch} now`, `epoch ${mark.epoch} ≠ ${mark.now.epoch}`] : [`too late: epoch ${mark.epoch} has ended`];
    const words = said.find((each) => (each.length + 2) * LETTER < view.left + view.width - at);
    if (words) shapes.push(draw("text", { class: "why", x: at + 12, y: y + 4 }, words));
  }
  shapes.push(SHAPES[mark.what](at, y));
  if (mark.times > 1) shapes.push(draw("text", { class: "times", x: at + 8, y: y + 3 }, `×${mark.times}`));
  into.append(place(view, lane, mark, mark.at, describeMark(mark), ...shapes));
}

function describe(span, now) {
  const parts = [`${span.agent || "somebody"} had ${title(span.thing)} as epoch ${span.epoch}`];
  parts.push(span.from ? `from ${clock(span.from, 1)} for ${lasting((span.to || now) - span.from)}` : "from before this window");
  if (span.renewed) parts.push(span.renewed === 1 ? "renewed once" : `renewed ${span.renewed} times`);
  if (late(span) && span.until < (span.to || now)) parts.push(`its lease ran out at ${clock(span.until, 1)}`);
  parts.push(ENDS[span.how] + (span.note ? `: ${span.note}` : ""));
  return `${parts.join(", ")}.`;
}

function describeMark(mark) {
  const times = mark.times > 1 ? ` ${mark.times} times, last` : "", when = `at ${clock(mark.at, 1)}`, what = title(mark.thing);
  if (mark.what === "fenced") return `${mark.agent} wrote to ${what} too late, with epoch ${mark.epoch}${times} ${when}. It was refused and nothing changed.`;
  if (mark.what === "refused") return `${mark.agent} was refused ${what}${times} ${when}${mark.note ? `: ${mark.note}` : ""}.`;
  return `${mark.agent} was told that its wait for ${what} could never end, ${when}${mark.note ? `: ${mark.note}` : ""}.`;
}

// ── The life of a task ──────────────────────────────────────────────────────────────────────────────────────────

const COLUMN = 22;

/** Draw the branches beside a list of events: its items say `data-event`, `data-agent` and `data-epoch`.
 *
 * The trunk on the left is the task as the board has it. Each grant is a branch with the colour of its agent, which
 * ends where the grant ended. A refusal is a twig that comes to nothing. A late write hangs on the dashed rest of a
 * branch that has ended: it never reaches the trunk. */
export function life(el) {
  const items = [...el.querySelectorAll("li[data-event]")];
  const svg = el.querySelector("svg.branches") ?? draw("svg", { class: "branches", "aria-hidden": "true" });
  if (!svg.isConnected) (el.querySelector(".life-picture") ?? el).prepend(svg);
  const rows = items.map((item) => ({ ...item.dataset, item, what: item.dataset.event.split(".")[1] }));
  const branches = branchesOf(rows), colours = palette(rows.map((row) => row.agent ?? ""));
  const wide = (Math.max(1, ...branches.map((branch) => branch.column)) + 1) * COLUMN + 12;
  svg.setAttribute("width", wide); // first of all: it decides where the lines of the list break
  svg.setAttribute("height", 0);
  const top = el.getBoundingClientRect().top;
  for (const row of rows) row.y = row.item.getBoundingClientRect().top - top + 13;
  const end = rows.at(-1)?.y ?? 0, parts = [];
  if (rows.length) parts.push(draw("path", { class: "trunk", d: `M${TRUNK} ${rows[0].y}V${end}` }));
  for (const branch of branches) parts.push(...drawBranch(branch, colours.get(branch.agent), end));
  for (const row of rows) parts.push(...drawRow(row, colours.get(row.agent ?? "")));
  svg.setAttribute("height", end + 14);
  svg.replaceChildren(...parts);
}

const ENDED = ["completed", "failed", "retrying", "released", "expired", "broken", "cancelled", "restored"];
const TRUNK = 20;
const column = (number) => TRUNK + number * COLUMN;

/** One branch for each grant: where it begins, ends, and which late writes came after its end. */
function branchesOf(rows) {
  const branches = [], busy = [];
  let open = null;
  for (const row of rows) {
    if (row.what === "claimed") {
      if (open) open.end ??= row;
      open = { epoch: row.epoch, agent: row.agent, begin: row, end: null, late: [] };
      branches.push(open);
      row.branch = open;
    } else if (row.what === "fenced" || row.what === "orphaned") {
      row.branch = branches.find((branch) => branch.epoch === row.epoch && branch.agent === row.agent);
      row.branch?.late.push(row);
    } else if (open && ENDED.includes(row.what)) {
      [open.end, row.branch, open] = [row, open, null];
    } else if (open && (row.what === "extended" || row.what === "progress")) row.branch = open;
  }
  for (const branch of branches) {
    branch.last = rows.indexOf(branch.late.at(-1) ?? branch.end ?? rows.at(-1));
    let free = busy.findIndex((last) => last < rows.indexOf(branch.begin));
    if (free < 0) free = busy.length;
    [branch.column, busy[free]] = [free + 1, branch.last];
  }
  return branches;
}

function drawBranch(branch, colour, bottom) {
  const x = column(branch.column), y = branch.begin.y, stop = branch.end?.y ?? bottom + 10, how = branch.end?.what ?? "open";
  const back = how === "expired" || how === "broken" ? `V${stop - 6}` : how === "open" ? `V${stop}` : `V${stop - 12}Q${x} ${stop} ${TRUNK} ${stop}`;
  const made = [draw("path", { class: `branch ${colour}`, d: `M${TRUNK} ${y}Q${x} ${y} ${x} ${y + 12}${back}` })];
  const last = branch.late.at(-1);
  if (last) made.push(draw("path", { class: `ghost ${colour}`, d: `M${x} ${stop + 4}V${last.y - 8}` }));
  return made;
}

function drawRow(row, colour) {
  const x = column(row.branch?.column ?? 0);
  if (row.what === "fenced" || row.what === "orphaned") return [SHAPES.fenced(x, row.y)];
  if (row.what === "refused") return [draw("path", { class: `twig ${colour}`, d: `M0 ${row.y - 8}Q2 ${row.y} 13 ${row.y}` }), SHAPES.refused(TRUNK, row.y + 1)];
  if (row.what === "expired") return [SHAPES.lapsed(x, row.y)];
  if (row.what === "broken") return [SHAPES.broken(x, row.y)];
  if (row.what === "extended" || row.what === "progress") return [draw("circle", { class: `small ${colour}`, cx: x, cy: row.y, r: 3 })];
  return [draw("circle", { class: `dot ${row.what}`, cx: TRUNK, cy: row.y, r: ["completed", "failed", "cancelled"].includes(row.what) ? 6 : 4.5 })];
}

// ── Sparklines ──────────────────────────────────────────────────────────────────────────────────────────────────

/** Draw values as a line (or bars) into an SVG element of fixed size; null leaves a gap: nothing is known there. */
export function sparkline(el, values, { bars = false } = {}) {
  const [wide, high] = [Number(el.getAttribute("width")), Number(el.getAttribute("height"))];
  const most = Math.max(1e-9, ...values.map((value) => value ?? 0)), by = wide / Math.max(1, values.length - (bars ? 0 : 1));
  const y = (value) => high - 2 - (value / most) * (high - 5);
  if (bars) {
    el.replaceChildren(...values.flatMap((value, i) => (value ? [draw("rect", { class: "bar", x: i * by, y: y(value), width: Math.max(1, by - 1), height: high - y(value) })] : [])), draw("path", { class: "base", d: `M0 ${high - 1}H${wide}` }));
    return;
  }
  const runs = [];
  values.forEach((value, i) => { if (value !== null) (i && values[i - 1] !== null ? runs.at(-1) : runs[runs.push([]) - 1]).push([i * by, y(value)]); });
  const parts = [draw("path", { class: "base", d: `M0 ${high - 1}H${wide}` })];
  for (const run of runs) {
    if (run.length === 1) parts.push(draw("circle", { class: "last", cx: run[0][0], cy: run[0][1], r: 1.4 }));
    const line = run.map(([px, py]) => `${px.toFixed(1)} ${py.toFixed(1)}`).join("L");
    parts.push(draw("path", { class: "area", d: `M${run[0][0]} ${high}L${line}L${run.at(-1)[0]} ${high}z` }), draw("path", { class: "line", d: `M${line}` }));
  }
  const last = runs.at(-1)?.at(-1);
  if (last && values.at(-1) !== null) parts.push(draw("circle", { class: "last", cx: Math.min(last[0], wide - 2), cy: last[1], r: 2 }));
  el.replaceChildren(...parts);
}
