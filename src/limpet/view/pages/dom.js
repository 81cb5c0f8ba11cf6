// Makes elements. Text from datasets and models only ever becomes text: nothing here parses HTML.

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "rect", "line", "circle", "path", "g", "title"]);

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
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  put(node, children);
  return node;
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

// Characters that turn the direction of text, hide in it, or drive terminals.
const HIDDEN = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** Return text in which each character that cannot be seen is shown by its code. */
export function visible(text) {
  return text.replace(HIDDEN, (character) =>
    `\u2423${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`);
}

/** Return a long text in an element that keeps its lines and can be scrolled. */
export function longText(text, attributes = {}) {
  return el("pre", { class: "text", tabindex: "0", ...attributes }, text);
}

/** Return any value as text: strings as they are, the rest as JSON. */
export function textOf(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}
