// Ages and remaining leases go on while the page is open: `<time datetime data-form="ago|lasts|left">`.
import { boardNow } from "./page.js";

const UNITS = [[60, "m"], [60, "h"], [24, "d"]];

/** An age, rounded down to its largest unit, as `text.ago` writes it: 59s, 3m, 2h, 5d. */
export function age(seconds) {
  let count = Math.floor(Math.abs(seconds));
  let unit = "s";
  for (const [size, larger] of UNITS) {
    if (count < size) break;
    count = Math.floor(count / size);
    unit = larger;
  }
  return `${count}${unit}`;
}

const FORMS = {
  ago: (at, now) => `${age(Math.max(0, now - at))} ago`,
  lasts: (at, now) => `for ${age(Math.max(0, now - at))}`,
  left: (at, now) => (at > now ? `${age(at - now)} left` : "lapsed"),
};

function tick() {
  if (document.hidden) return;
  const now = boardNow();
  for (const each of document.querySelectorAll("time[data-form]")) {
    const words = FORMS[each.dataset.form]((each._at ??= Date.parse(each.dateTime) / 1000), now);
    if (each.textContent !== words) each.textContent = words;
  }
}

export function startAges() {
  document.addEventListener("tiebreak:shown", () => {
    for (const each of document.querySelectorAll("time[data-form]")) each._at = undefined;
    tick();
  });
  setInterval(tick, 1000);
}
