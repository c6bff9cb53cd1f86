// Keys: `g` and a letter go to a page, `j` and `k` move through rows, Enter opens, `/` searches, `p` pauses, `?` helps.
import { togglePause } from "./live.js";

const CHORD = 1500; // milliseconds within which a letter follows `g`
let began = -CHORD;

export function startKeys() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isBusy(event.target)) return;
    const handled = performance.now() - began < CHORD ? go(event.key) : press(event.key, event.target);
    began = event.key === "g" && !handled ? performance.now() : -CHORD;
    if (handled) event.preventDefault();
  });
  document.getElementById("help-button")?.addEventListener("click", help);
  for (const each of document.querySelectorAll("dialog [data-close]")) {
    each.addEventListener("click", () => each.closest("dialog").close());
  }
}

/** Whether somebody types, or a dialog has the keyboard. */
function isBusy(target) {
  return Boolean(document.querySelector("dialog[open]")) || Boolean(target.closest("input, textarea, select, [contenteditable]"));
}

function go(key) {
  const link = document.querySelector(`nav.pages a[data-goto="${CSS.escape(key)}"]`);
  link?.click();
  return Boolean(link);
}

function press(key, target) {
  if (key === "j" || key === "k") return step(key === "j" ? 1 : -1);
  if (key === "Enter") return enter(target);
  if (key === "/") return search();
  if (key === "p") return togglePause(), true;
  if (key === "?") return help(), true;
  return false;
}

function step(by) {
  const rows = [...document.querySelectorAll("main [data-row]")].filter((row) => row.offsetParent);
  const here = rows.findIndex((row) => row.contains(document.activeElement));
  const row = rows[here < 0 ? (by > 0 ? 0 : rows.length - 1) : here + by];
  row?.focus();
  row?.scrollIntoView({ block: "nearest" });
  return Boolean(row);
}

/** Enter on a row follows its first link; on anything else it does what it always does. */
function enter(target) {
  if (!target.matches("[data-row]")) return false;
  const link = target.querySelector("a[href]");
  link?.click();
  return Boolean(link);
}

function search() {
  const field = document.querySelector("main input[type=search]");
  field?.focus();
  field?.select();
  return Boolean(field);
}

function help() {
  document.getElementById("help").showModal();
}
