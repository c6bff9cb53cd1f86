// The terminal of an agent's session, for a browser that may act. It is asked for again while the page is visible and not
// paused.
import { guarded } from "./acting.js";
import { isPaused } from "./live.js";

const PAUSE = 2000; // milliseconds between two looks

async function look() {
  const place = document.querySelector("[data-terminal]");
  if (place && !document.hidden && !(isPaused() && place.hasChildNodes())) {
    const answer = await guarded(place.dataset.terminal).catch(() => null);
    const said = answer ? await answer.json() : null;
    if (said) show(place, answer.ok ? said.screen : `${said.message}.`);
  }
  setTimeout(look, PAUSE);
}

function show(place, text) {
  let screen = place.querySelector("pre");
  if (!screen) {
    screen = Object.assign(document.createElement("pre"), { tabIndex: 0 });
    screen.setAttribute("aria-label", "Terminal");
    place.append(screen);
  }
  const atEnd = screen.scrollTop + screen.clientHeight >= screen.scrollHeight - 4;
  if (screen.textContent !== text) screen.textContent = text;
  if (atEnd) screen.scrollTop = screen.scrollHeight;
}

document.addEventListener("tiebreak:acting", () => document.querySelector("[data-terminal]")?.replaceChildren());
look();
