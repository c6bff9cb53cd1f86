// Where somebody is among the rows of a page. A row may go while it has the focus: the keyboard then stays beside it.

/** Remember where an element is. The function that is returned gives it the focus. If it is gone, that goes to its row,
 * or else to the next row of the list, the last one, any row after the list, or the page. */
export function placeOf(element) {
  const row = element.closest("main [data-row]");
  const rows = row ? [...document.querySelectorAll("main [data-row]")] : [];
  const here = rows.indexOf(row);
  const list = row?.parentNode;
  const isMate = (each) => each.parentNode === list;
  const [before, after] = [rows.slice(0, Math.max(0, here)).reverse(), rows.slice(here + 1)];
  const near = [element, row, ...after.filter(isMate), ...before.filter(isMate), ...after];
  return () => {
    const found = near.find((each) => each?.isConnected) ?? document.getElementById("main");
    found.focus({ preventScroll: true });
  };
}
