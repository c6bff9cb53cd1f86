// Acting: the write key, the dialog in which an action is confirmed, and sending it.
//
// `tb web --write` leads to `/#write=KEY`. The key is taken out of the address at once and kept in this tab's storage,
// which only pages of this very port can read. Every action sends it in a header, which no other site can do. Whose key it
// is, is kept beside it: two tabs of a browser may have been signed in by two persons.
import { placeOf } from "./place.js";

const KEY = "tiebreak-write-key";
const PERSON = "tiebreak-person";
const ONLY_READS = "tiebreak-only-reads"; // the person of this tab has said so: it takes no key from other tabs
const writeKey = () => sessionStorage.getItem(KEY);

export function startActing() {
  const given = /^#write=([\w-]+)$/.exec(location.hash);
  if (given) {
    history.replaceState(null, "", location.pathname + location.search);
    sessionStorage.removeItem(ONLY_READS);
    keep(given[1], shownPerson().textContent);
  } else if (writeKey() && sessionStorage.getItem(PERSON) !== shownPerson().textContent) {
    keep(""); // another person has signed this browser in since, so this key counts no more
  }
  shareBetweenTabs();
  tellWhetherActing();
  window.addEventListener("pageshow", (event) => event.persisted && tellWhetherActing());
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-action]");
    if (button && writeKey()) ask(JSON.parse(button.dataset.action), button);
  });
  document.getElementById("stop-acting")?.addEventListener("click", () => {
    sessionStorage.setItem(ONLY_READS, "yes");
    keep("");
  });
}

/** Where the page says in whose name it acts. The daemon writes there who has signed this browser in last. */
const shownPerson = () => document.getElementById("person");

/** Fetch what only a browser that may act is shown; null if this one may not. */
export async function guarded(address) {
  if (!writeKey()) return null;
  const answer = await fetch(address, { headers: { "Tiebreak-Write": writeKey() } });
  if (answer.status === 401) keep("");
  return answer;
}

function keep(key, person = "") {
  for (const [name, value] of [[KEY, key], [PERSON, person]]) {
    if (key) sessionStorage.setItem(name, value);
    else sessionStorage.removeItem(name);
  }
  tellWhetherActing();
}

function tellWhetherActing() {
  const root = document.documentElement;
  if (writeKey()) root.dataset.writes = "yes";
  else delete root.dataset.writes;
  if (writeKey()) shownPerson().textContent = sessionStorage.getItem(PERSON);
  document.dispatchEvent(new CustomEvent("tiebreak:acting"));
}

/** A new tab of the same port asks those that are open for the key, unless it was told only to read. */
function shareBetweenTabs() {
  const channel = new BroadcastChannel("tiebreak-write-key");
  channel.addEventListener("message", ({ data }) => {
    if (data.wanted && writeKey()) channel.postMessage({ key: writeKey(), person: sessionStorage.getItem(PERSON) });
    if (data.key && wantsKey()) keep(data.key, data.person);
  });
  const wantsKey = () => !writeKey() && !sessionStorage.getItem(ONLY_READS);
  if (wantsKey()) channel.postMessage({ wanted: true });
}

// ── The dialog ──────────────────────────────────────────────────────────────────────────────────────────────────────

const make = (name, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
};

/** Not `crypto.randomUUID`, which browsers offer on https and loopback alone. */
const randomKey = () => Array.from(crypto.getRandomValues(new Uint32Array(4)), (each) => each.toString(36)).join("-");

function ask(action, opener) {
  const dialog = document.getElementById("act");
  const form = dialog.querySelector("form");
  const once = randomKey(); // a second press of the button is the same action
  dialog.querySelector("h2").textContent = action.label;
  dialog.querySelector(".question").textContent = action.question;
  dialog.querySelector(".problem").replaceChildren();
  dialog.querySelector(".fields").replaceChildren(...action.fields.map(fieldOf));
  const confirm = dialog.querySelector("button.confirm");
  confirm.textContent = action.confirm;
  confirm.classList.toggle("dangerous", action.dangerous);
  confirm.disabled = false;
  form.onsubmit = async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    const filled = Object.fromEntries(new FormData(form));
    await send(dialog, { action: action.action, params: { ...action.params, ...filled } }, once);
    confirm.disabled = false;
  };
  dialog.onclose = placeOf(opener);
  dialog.showModal();
  firstFocus(dialog, form, action.dangerous ? dialog.querySelector("button.back") : confirm, action.dangerous).focus();
}

/** What has the focus at first: a field, if there is one. But Enter in a field confirms what is complete already, and
 * nobody may do something dangerous by pressing Enter twice. */
function firstFocus(dialog, form, otherwise, dangerous) {
  const first = dialog.querySelector(".fields input, .fields textarea, .fields select");
  return first && !(dangerous && form.checkValidity()) ? first : otherwise;
}

function fieldOf(field) {
  const common = { name: field.name, required: field.required };
  if (field.kind === "choice" && field.choices.length <= 6) return choiceOf(field);
  const input =
    field.kind === "choice" ? selectOf(field, common)
    : field.kind === "text" ? make("textarea", { ...common, rows: 4 })
    : make("input", { ...common, type: "text", autocomplete: "off" });
  return make("label", {}, make("span", {}, field.label), input);
}

/** If nothing is chosen beforehand, an empty first entry makes the person choose. */
function selectOf(field, common) {
  const choices = field.choices.includes(field.default) ? field.choices : ["", ...field.choices];
  return make("select", common, ...choices.map((each) => make("option", { value: each, selected: each === field.default }, each)));
}

function choiceOf(field) {
  const options = field.choices.map((each) => {
    const option = make("input", { type: "radio", name: field.name, value: each, required: true, checked: each === field.default });
    return make("label", {}, option, make("span", {}, each));
  });
  return make("fieldset", {}, make("legend", {}, field.label), ...options);
}

async function send(dialog, body, once) {
  let answer = null;
  let said = {};
  try {
    answer = await fetch("/web/act", {
      method: "POST",
      headers: { "Content-Type": "application/json", "Tiebreak-Write": writeKey() ?? "", "Idempotency-Key": once },
      body: JSON.stringify(body),
    });
    said = await answer.json();
  } catch {
    return refuse(dialog, "The daemon cannot be reached.", "Nothing may have happened: look at the page before you try again.");
  }
  if (answer.ok) {
    dialog.close();
    tell(said.said);
    document.dispatchEvent(new CustomEvent("tiebreak:acted", { detail: said }));
  } else if (answer.status === 401) {
    keep("");
    refuse(dialog, "This browser may not act any more.", "Run `tb web --write` and follow its link.");
  } else {
    refuse(dialog, `${said.message}.`, said.hint);
  }
}

function refuse(dialog, message, hint) {
  const lines = [make("strong", {}, message), ...(hint ? [make("span", {}, hint)] : [])];
  dialog.querySelector(".problem").replaceChildren(...lines.map((line) => make("p", {}, line)));
}

let gone = 0;
function tell(words) {
  const place = document.getElementById("told");
  place.textContent = words;
  clearTimeout(gone);
  gone = setTimeout(() => (place.textContent = ""), 6000);
}
