// Merges a tree that was fetched again into the one that is shown, so that what did not change stays the same element:
// it keeps focus, selection, scroll position and open details. Elements of a list are matched by `data-key`, others by
// their place. An element with `data-own` belongs to a script: its content is left alone.

/** Make `old` look like `fresh`. Both have the same name. */
export function merge(old, fresh) {
  if (old.isEqualNode(fresh)) return;
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== fresh.data) old.data = fresh.data;
  } else if (old.nodeType === Node.ELEMENT_NODE) {
    mergeAttributes(old, fresh);
    if (!old.hasAttribute("data-own")) mergeChildren(old, fresh);
  }
}

// What a person has changed stays: whether details are open, and what a field contains.
const theirs = (element, name) =>
  (element.nodeName === "DETAILS" && name === "open") ||
  (["INPUT", "TEXTAREA", "SELECT", "OPTION"].includes(element.nodeName) && ["value", "checked", "selected"].includes(name));

function mergeAttributes(old, fresh) {
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && !theirs(old, name)) old.removeAttribute(name);
  }
  for (const { name, value } of fresh.attributes) {
    if (old.getAttribute(name) !== value && !theirs(old, name)) old.setAttribute(name, value);
  }
}

const keyOf = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.dataset.key : undefined);
const isBlank = (node) => node.nodeType === Node.TEXT_NODE && !node.data.trim();

function mergeChildren(old, fresh) {
  const keys = new Set([...fresh.childNodes].map(keyOf).filter(Boolean));
  const have = new Map();
  for (const child of [...old.children]) {
    const key = keyOf(child);
    if (key && keys.has(key)) have.set(key, child);
    else if (key) child.remove();
  }
  const isList = keys.size > 0 || have.size > 0; // in a list, blanks between elements do not matter
  const next = (node) => {
    while (isList && node && isBlank(node)) node = node.nextSibling;
    return node;
  };
  let at = next(old.firstChild);
  for (const wanted of fresh.childNodes) {
    if (isList && isBlank(wanted)) continue;
    const key = keyOf(wanted);
    const sameKind = at && !keyOf(at) && at.nodeName === wanted.nodeName ? at : undefined;
    const match = key ? have.get(key) : sameKind;
    if (!match || match.nodeName !== wanted.nodeName) {
      old.insertBefore(document.importNode(wanted, true), at);
    } else {
      if (match === at) at = next(at.nextSibling);
      else move(old, match, at);
      merge(match, wanted);
    }
  }
  while (at) {
    const gone = at;
    at = next(at.nextSibling);
    gone.remove();
  }
}

function move(parent, node, before) {
  if (parent.moveBefore) parent.moveBefore(node, before); // keeps focus and selection
  else parent.insertBefore(node, before);
}
