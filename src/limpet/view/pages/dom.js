// Makes and updates elements. Text from datasets and models stays text: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "rect", "line", "circle", "path", "g", "title", "text"]);
const LISTENERS = Symbol("listeners");
const SHOWN = Symbol("shown");
const BUILD = Symbol("build");

/**
 * Make an element.
 *
 * Attributes that begin with "on" are listeners; `true` sets an attribute, `false` and null leave
 * it out. Children are elements, strings or numbers, in nested lists; null is nothing.
 */
export function el(tag, attributes = {}, ...children) {
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) listen(node, name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  put(node, children);
  return node;
}

function listen(node, name, listener) {
  node[LISTENERS] ||= {};
  node[LISTENERS][name] = listener;
  node.addEventListener(name, (event) => node[LISTENERS][name]?.(event));
}

function put(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(visible(String(child))));
  }
}

/** Replace everything inside an element. */
export function fill(node, ...children) {
  node.replaceChildren();
  put(node, children);
  return node;
}

/**
 * Update the children of an element, keeping focus, selection, scroll positions and what is
 * unfolded. `data-name` tells siblings apart.
 */
export function update(node, ...children) {
  const wanted = document.createDocumentFragment();
  put(wanted, children);
  updateChildren(node, wanted);
  return node;
}

/** Mark an element as showing a value: an update keeps it as it is while the value stays. */
export function showing(value, node) {
  node[SHOWN] = typeof value === "string" ? value : JSON.stringify(value);
  return node;
}

/** Return a part that unfolds. Its content is built when somebody unfolds it, from `value`. */
export function unfolding(name, summary, value, build, attributes = {}) {
  const content = showing(value, el("div", { class: "content", "data-name": "content" }));
  content[BUILD] = () => content.firstChild || fill(content, build());
  const opened = (event) => event.target === event.currentTarget && event.target.open && buildIn(event.target);
  return el("details", { "data-name": name, ontoggle: opened, ...attributes }, el("summary", {}, summary), content);
}

function buildIn(details) {
  for (const child of details.children) child[BUILD]?.();
}

function updateChildren(node, wanted) {
  const all = [...wanted.childNodes];
  let left = null; // the names of those still to come, from the first difference on
  let old = node.firstChild;
  all.forEach((next, at) => {
    if (old && !isSame(old, next)) {
      left ||= new Set(all.slice(at).map(nameOf));
      while (old && nameOf(old) && !isSame(old, next) && !left.has(nameOf(old))) old = without(old);
    }
    left?.delete(nameOf(next));
    if (old && isSame(old, next)) {
      const following = old.nextSibling;
      updateNode(old, next);
      old = following;
    } else if (old && !nameOf(old)) {
      const following = old.nextSibling;
      node.replaceChild(next, old);
      if (node.open) next[BUILD]?.();
      old = following;
    } else {
      node.insertBefore(next, old); // `old` comes later: what is typed there stays
      if (node.open) next[BUILD]?.();
    }
  });
  while (old) old = without(old);
}

const nameOf = (node) => node.dataset?.name;

/** Remove a node, and return the one after it. */
function without(node) {
  const following = node.nextSibling;
  node.remove();
  return following;
}

function isSame(old, next) {
  return old.nodeType === next.nodeType && old.nodeName === next.nodeName
    && nameOf(old) === nameOf(next) && old[SHOWN] === next[SHOWN];
}

// What a person changed on the page stays, and whether keys reach a table.
const THEIRS = new Set(["open", "tabindex"]);

function updateNode(old, next) {
  if (old === next || next[SHOWN] !== undefined) return;
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== next.data) old.data = next.data;
    return;
  }
  for (const { name } of [...old.attributes]) {
    if (!next.hasAttribute(name) && !THEIRS.has(name)) old.removeAttribute(name);
  }
  for (const { name, value } of next.attributes) {
    if (old.getAttribute(name) !== value && !THEIRS.has(name)) old.setAttribute(name, value);
  }
  for (const [name, listener] of Object.entries(next[LISTENERS] || {})) {
    if (old[LISTENERS]?.[name]) old[LISTENERS][name] = listener;
    else listen(old, name, listener);
  }
  updateChildren(old, next);
}

// Characters that turn the direction of text, hide in it, or drive terminals.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e0fff}]/gu;

/** Return text with each invisible character shown as its code. */
export function visible(text) {
  return text.replace(HIDDEN, (character) =>
    `\u2423${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`);
}

/** Return whether a field has the focus: otherwise keys are commands. */
export function isTyping() {
  return Boolean(document.activeElement?.matches("input:not([type=radio]), textarea, select"));
}

/** Return a long text in an element that keeps its lines and can be scrolled. */
export function longText(text, attributes = {}) {
  return el("pre", { class: "text", tabindex: "0", dir: "auto", ...attributes }, text);
}

/** Return any value as text: strings as they are, the rest as JSON. */
export function textOf(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

/** Return a table with a label for screen readers; `titles` are words or `[words, class]`. */
export function table(label, titles, rows, attributes = {}) {
  const head = (one) => {
    const [words, name = null] = [one].flat();
    return words ? el("th", { scope: "col", class: name }, words) : el("td", { class: name });
  };
  return wide(el("table", { class: "plain", "aria-label": label, ...attributes },
    el("thead", {}, el("tr", {}, titles.map(head))), el("tbody", {}, rows)));
}

/** Return a frame in which a table scrolls; keys reach it only if the table is wider than it. */
export function wide(inner) {
  const frame = el("div", { class: "wide" }, inner);
  const sized = new ResizeObserver(() => {
    if (frame.scrollWidth > frame.clientWidth) frame.setAttribute("tabindex", "0");
    else frame.removeAttribute("tabindex");
  });
  sized.observe(frame);
  sized.observe(inner);
  return frame;
}
