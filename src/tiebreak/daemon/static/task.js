// A task's page: draws the branches of its life, and fetches the output of a job if this browser may act.
import { guarded } from "./acting.js";
import { life } from "./drawing.js";
import { isPaused } from "./live.js";
import { onShown } from "./page.js";

const list = document.getElementById("life");
const redraw = () => list && life(list);
onShown(redraw);
if (list) new ResizeObserver(redraw).observe(list.querySelector("ol"));

const output = document.getElementById("job-output");
let shown = "";

async function showOutput() {
  if (!output) return;
  const { number, project } = output.dataset;
  const answer = await guarded(`/web/output?number=${number}`).catch(() => null);
  if (!answer?.ok) return;
  const text = await answer.text();
  if (text === shown && output.querySelector("pre")) return;
  shown = text;
  const made = document.createElement("pre");
  made.className = "output";
  made.tabIndex = 0;
  made.setAttribute("aria-label", `Output of #${number} in ${project}`);
  made.textContent = text || "It has printed nothing yet.";
  const below = output.querySelector("pre");
  const atEnd = !below || below.scrollHeight - below.scrollTop - below.clientHeight < 40;
  output.replaceChildren(made);
  if (atEnd) made.scrollTop = made.scrollHeight;
}
onShown(showOutput);
// What a job prints is no event, so it is asked for again while the job runs and somebody looks.
setInterval(() => "running" in (output?.dataset ?? {}) && !document.hidden && !isPaused() && showOutput(), 3000);
document.addEventListener("tiebreak:acting", showOutput);
