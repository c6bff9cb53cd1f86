// What the scripts of single pages share.

/** The value that the template has put out by `{{ data(name, value) }}`. */
export function data(name) {
  const found = document.querySelector(`[data-name="${CSS.escape(name)}"]`);
  return found ? JSON.parse(found.textContent) : null;
}

/** Run a function now, and again whenever the page has been updated. */
export function onShown(draw) {
  document.addEventListener("tiebreak:shown", draw);
  draw();
}

/** The page's board time in seconds. It goes on while the page is open. */
export function boardNow() {
  const main = document.querySelector("main");
  return Number(main.dataset.now) + (performance.now() - Number(main.dataset.shownAt ?? 0)) / 1000;
}
