// Keeps the page up to date. One stream tells of every event after the page's cursor. After an event that concerns the
// page, the page is fetched again and merged into the one that is shown: a few times a second at most, and only while
// somebody can see it and has not paused it. A stream that breaks is opened again after the last event, so none is lost.
import { merge } from "./merge.js";
import { placeOf } from "./place.js";

const GAP = 350; // milliseconds between two fetches; more if the page takes long
const STORM = 1000; // the same while events come without a pause: nobody reads a page that never stands still
const ANYWAY = 30_000; // milliseconds after which a page is fetched without an event: some things change by time alone
const PATIENCE = 10_000; // milliseconds for one fetch
const RETRY = [500, 1000, 2000, 5000]; // milliseconds before the stream is opened again
const PAUSED = "tiebreak-paused";

let main, status, button;
let stream = null;
let cursor = 0; // the last event that is known
let waiting = 0; // events that concern the page and are not shown yet
let dirty = false;
let fetching = false;
let timer = 0;
let earliest = 0;
let tries = 0;
let trouble = ""; // "", "lost", "signed-out" or "gone"

export function startLive() {
  main = document.querySelector("main[data-cursor]");
  status = document.getElementById("live-status");
  button = document.getElementById("pause");
  if (!main) return;
  cursor = Number(main.dataset.cursor);
  main.dataset.shownAt = String(performance.now());
  button.addEventListener("click", togglePause);
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : comeBack()));
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => event.persisted && comeBack());
  document.addEventListener("tiebreak:acted", touch); // sooner than by the stream, which counts what waits
  setInterval(touch, ANYWAY);
  if (!document.hidden) open();
  tell();
}

export const isPaused = () => sessionStorage.getItem(PAUSED) === "yes";

export function togglePause() {
  if (isPaused()) sessionStorage.removeItem(PAUSED);
  else sessionStorage.setItem(PAUSED, "yes");
  tell();
  plan();
}

// ── The stream ──────────────────────────────────────────────────────────────────────────────────────────────────────

function open() {
  close();
  const query = new URLSearchParams({ after: cursor, brief: "true" });
  if (main.dataset.project) query.set("project", main.dataset.project);
  const mine = (stream = new EventSource(`/events?${query}`));
  mine.addEventListener("open", () => {
    tries = 0;
    if (trouble) {
      trouble = "";
      touch(); // what happened meanwhile may concern the page
    }
    tell();
  });
  mine.addEventListener("message", (message) => {
    const { number, events } = JSON.parse(message.data);
    cursor = Math.max(cursor, number);
    const many = Object.entries(events).reduce((sum, [name, count]) => sum + (concerns(name) ? count : 0), 0);
    if (many) heard(number, many);
  });
  mine.addEventListener("error", () => mine === stream && broken());
}

function close() {
  stream?.close();
  stream = null;
}

/** The page can be seen again: open the stream and show what happened meanwhile. */
function comeBack() {
  open();
  touch();
}

function broken() {
  close(); // the browser would try again by itself, but not after an answer such as 401
  trouble ||= "lost";
  tell();
  const pause = RETRY[Math.min(tries++, RETRY.length - 1)];
  setTimeout(() => stream || document.hidden || reopen(), pause);
}

/** Find out whether the daemon is back and this browser is still signed in; then go on. */
async function reopen() {
  try {
    const fresh = await load(location.href);
    if (isPaused()) dirty = true;
    else show(fresh);
    open();
  } catch (problem) {
    failed(problem);
  }
}

/** The page could not be fetched. Whether it is worth trying again depends on why. */
function failed({ status }) {
  trouble = status === 401 ? "signed-out" : status >= 400 && status < 500 ? "gone" : "lost";
  if (trouble !== "gone") return broken();
  close(); // until somebody comes back to this tab
  tell();
}

const concerns = (name) => main.dataset.watch.split(" ").some((beginning) => name.startsWith(beginning));

function heard(number, many) {
  if (number <= Number(main.dataset.cursor)) return; // the page shows it already
  waiting += many;
  touch();
}

// ── Fetching and merging ────────────────────────────────────────────────────────────────────────────────────────────

function touch() {
  dirty = true;
  plan();
}

function plan() {
  if (isPaused()) tell();
  if (!dirty || fetching || timer || isPaused() || document.hidden || trouble) return;
  timer = setTimeout(refresh, Math.max(0, earliest - performance.now()));
}

async function refresh() {
  timer = 0;
  fetching = true;
  dirty = false;
  waiting = 0;
  const began = performance.now();
  try {
    show(await load(location.href));
  } catch (problem) {
    dirty = true;
    failed(problem);
  } finally {
    const took = performance.now() - began;
    earliest = performance.now() + Math.max(dirty ? STORM : GAP, 2 * took);
    fetching = false;
    plan();
  }
}

/** Fetch a page as a document. It is parsed and no script in it runs. */
function load(url) {
  return new Promise((done, refused) => {
    const request = new XMLHttpRequest();
    request.open("GET", url);
    request.setRequestHeader("Accept", "*/*"); // a refusal is then not a page
    request.responseType = "document";
    request.timeout = PATIENCE;
    request.onload = () => (request.status === 200 && request.response ? done(request.response) : refused(request));
    request.onerror = request.ontimeout = () => refused({ status: 0 });
    request.send();
  });
}

function show(fresh) {
  const theirs = fresh.querySelector("main[data-cursor]");
  if (!theirs || fresh.documentElement.dataset.version !== document.documentElement.dataset.version) {
    location.reload(); // another version of the daemon
    return;
  }
  const focused = document.activeElement;
  const focusAgain = placeOf(focused);
  theirs.dataset.shownAt = String(performance.now());
  merge(main, theirs);
  document.title = fresh.title;
  if (focused !== document.activeElement) focusAgain();
  cursor = Math.max(cursor, Number(main.dataset.cursor));
  tell();
  document.dispatchEvent(new CustomEvent("tiebreak:shown"));
}

// ── Telling ─────────────────────────────────────────────────────────────────────────────────────────────────────────

function tell() {
  const paused = isPaused();
  const [state, words, more = ""] =
    trouble === "signed-out" ? ["bad", "Signed out: run tb web"]
    : trouble === "gone" ? ["bad", "This page is gone"]
    : trouble ? ["bad", "Connection lost", ", trying again"]
    : paused ? ["paused", `Paused, ${waiting}`, waiting === 1 ? " event waits" : " events wait"]
    : ["good", "Live"];
  if (status.textContent !== words + more) say(words, more);
  status.dataset.state = state;
  button.setAttribute("aria-pressed", String(paused));
  button.textContent = paused ? "Resume" : "Pause";
}

/** A phone shows the first words alone; the others are for listeners there. */
function say(words, more) {
  const rest = document.createElement("span");
  rest.className = "more-words";
  rest.textContent = more;
  status.replaceChildren(words, rest);
}
