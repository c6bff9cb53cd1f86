// The page *Timeline*: draws its data, again after every update. Where the reader has zoomed to stays.
import { timeline } from "./timeline_drawing.js";
import { data, onShown } from "./page.js";

function link(thing) {
  const path = thing.agent ? "/agent" : thing.number ? `/tasks/${thing.number}` : null;
  if (!path) return null;
  const query = new URLSearchParams();
  const project = thing.project ?? document.querySelector("main").dataset.project;
  if (project) query.set("project", project);
  if (thing.agent) query.set("name", thing.agent);
  return `${path}?${query}`;
}

onShown(() => timeline(document.getElementById("timeline"), data("timeline"), { link }));
