// The page *Jobs*: draws the figures of the last hour beside their numbers.
import { sparkline } from "./drawing.js";
import { onShown } from "./page.js";

onShown(() => {
  for (const each of document.querySelectorAll("svg.spark")) sparkline(each, JSON.parse(each.dataset.values), { as: each.dataset.as });
});
