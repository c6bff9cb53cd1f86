// Pictures of time: the life of one task (`life`), the last hour of a queue (`sparkline`), and what they share with
// the timeline (`timeline_drawing.js`). Everything is drawn with DOM calls into SVG: text of the board is only ever
// `textContent`, so it cannot become markup. Colours and fonts are in drawing.css.

const SVG = "http://www.w3.org/2000/svg";
const COLOURS = 8; // classes c0 … c7 of drawing.css
export const LETTER = 6.7; // about the width of one, in the font of pictures

/** Make an SVG element with these attributes and children. */
export function draw(tag, attributes = {}, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** Make an HTML element with these properties and children. */
export function html(tag, properties = {}, ...children) {
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
const MINUTES = { hourCycle: "h23", hour: "2-digit", minute: "2-digit" };
const TO_THE_MINUTE = new Intl.DateTimeFormat([], MINUTES);
const TO_THE_SECOND = new Intl.DateTimeFormat([], { ...MINUTES, second: "2-digit" });
const DAYS = new Intl.DateTimeFormat([], { day: "numeric", month: "short" });

/** A moment as precise as a step of the axis: a day, a time, or a time with tenths of seconds. */
export function clock(at, step) {
  if (step >= 86400) return DAYS.format(at * 1000);
  const time = (step < 60 ? TO_THE_SECOND : TO_THE_MINUTE).format(at * 1000);
  return step < 1 ? `${time}.${Math.round((at % 1) * 10) % 10}` : time;
}

/** As much of a text as fits into a width; "" if that would tell nothing. */
export const fits = (text, width) => {
  const room = Math.floor(width / LETTER);
  return room >= text.length ? text : room > 5 ? `${text.slice(0, room - 1)}…` : "";
};

// ── Marks: each has a shape of its own, so that colour is never the only difference ─────────────────────────────

export const SHAPES = {
  refused: (x, y) => draw("path", { class: "refused", d: `M${x - 5} ${y - 5}h10l-5 9z` }),
  lapsed: (x, y) => draw("path", { class: "lapsed", d: `M${x} ${y - 6}l6 6l-6 6l-6 -6z` }),
  fenced: (x, y) => draw("g", { class: "fenced" },
    draw("circle", { cx: x, cy: y, r: 7 }),
    draw("path", { d: `M${x - 3.2} ${y - 3.2}l6.4 6.4m0 -6.4l-6.4 6.4` })),
  broken: (x, y) => draw("path", { class: "broken", d: `M${x - 2} ${y - 9}l5 6l-6 4l5 8` }),
  deadlocked: (x, y) => draw("path", { class: "deadlocked", d: `M${x - 3} ${y - 7}h6l4 4v6l-4 4h-6l-4 -4v-6z` }),
};
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
  const x = column(branch.column), y = branch.begin.y, stop = branch.end?.y ?? bottom + 10;
  const how = branch.end?.what ?? "open", cut = how === "expired" || how === "broken";
  const back = cut ? `V${stop - 6}` : how === "open" ? `V${stop}` : `V${stop - 12}Q${x} ${stop} ${TRUNK} ${stop}`;
  const made = [draw("path", { class: `branch ${colour}`, d: `M${TRUNK} ${y}Q${x} ${y} ${x} ${y + 12}${back}` })];
  const last = branch.late.at(-1);
  if (last) made.push(draw("path", { class: `ghost ${colour}`, d: `M${x} ${stop + 4}V${last.y - 8}` }));
  return made;
}

function drawRow(row, colour) {
  const x = column(row.branch?.column ?? 0);
  if (row.what === "fenced" || row.what === "orphaned") return [SHAPES.fenced(x, row.y)];
  if (row.what === "refused") {
    const twig = draw("path", { class: `twig ${colour}`, d: `M0 ${row.y - 8}Q2 ${row.y} 13 ${row.y}` });
    return [twig, SHAPES.refused(TRUNK, row.y + 1)];
  }
  if (row.what === "expired") return [SHAPES.lapsed(x, row.y)];
  if (row.what === "broken") return [SHAPES.broken(x, row.y)];
  if (row.what === "extended" || row.what === "progress") {
    return [draw("circle", { class: `small ${colour}`, cx: x, cy: row.y, r: 3 })];
  }
  const final = ["completed", "failed", "cancelled"].includes(row.what);
  return [draw("circle", { class: `dot ${row.what}`, cx: TRUNK, cy: row.y, r: final ? 6 : 4.5 })];
}

// ── Sparklines ──────────────────────────────────────────────────────────────────────────────────────────────────

/** Draw values as a line, bars or dots into an SVG element of fixed size; null leaves a gap: nothing is known there. */
export function sparkline(el, values, { as = "line" } = {}) {
  const bars = as === "bars";
  const [wide, high] = [Number(el.getAttribute("width")), Number(el.getAttribute("height"))];
  const most = Math.max(1e-9, ...values.map((value) => value ?? 0));
  const by = wide / Math.max(1, values.length - (bars ? 0 : 1));
  const y = (value) => high - 2 - (value / most) * (high - 5);
  const inside = (x) => Math.min(Math.max(x, 2), wide - 2); // the middle of a dot
  const base = draw("path", { class: "base", d: `M0 ${high - 1}H${wide}` });
  if (bars) {
    const bar = (value, i) =>
      draw("rect", { class: "bar", x: i * by, y: y(value), width: Math.max(1, by - 1), height: high - y(value) });
    el.replaceChildren(...values.flatMap((value, i) => (value ? [bar(value, i)] : [])), base);
    return;
  }
  const runs = [];
  values.forEach((value, i) => {
    if (value === null) return;
    if (!i || values[i - 1] === null) runs.push([]);
    runs.at(-1).push([i * by, y(value)]);
  });
  const parts = [base];
  for (const run of runs) {
    if (run.length === 1 || as === "dots") {
      parts.push(...run.map(([cx, cy]) => draw("circle", { class: "last", cx: inside(cx), cy, r: 1.8 })));
      continue;
    }
    const line = run.map(([px, py]) => `${px.toFixed(1)} ${py.toFixed(1)}`).join("L");
    parts.push(
      draw("path", { class: "area", d: `M${run[0][0]} ${high}L${line}L${run.at(-1)[0]} ${high}z` }),
      draw("path", { class: "line", d: `M${line}` }));
  }
  const newest = runs.at(-1) ?? [];
  if (as === "line" && newest.length > 1 && values.at(-1) !== null) {
    const [cx, cy] = newest.at(-1);
    parts.push(draw("circle", { class: "last", cx: inside(cx), cy, r: 2 }));
  }
  el.replaceChildren(...parts);
}
