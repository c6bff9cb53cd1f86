// What every page starts with. A page without scripts is complete; these keep it up to date and make it quick to use.
import { startActing } from "./acting.js";
import { startAges } from "./ages.js";
import { startCopying } from "./copying.js";
import { startKeys } from "./keys.js";
import { startLive } from "./live.js";
import { startMenu } from "./menu.js";

document.documentElement.dataset.scripts = "on";
startActing(); // first: it removes the write key from the address
startAges();
startCopying();
startKeys();
startLive();
startMenu();
document.querySelector("nav.pages [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
