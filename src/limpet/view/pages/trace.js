// What happened inside one call: a tree that can be folded, with times, tools and tokens.

import { el, longText, textOf } from "./dom.js";
import { count, seconds } from "./format.js";

const WIDTH = 120;
const DEEPEST = 40;

/** Return how many events a trace has. */
export function countEvents(events) {
  return (events || []).reduce((sum, event) => sum + 1 + countEvents(event.children), 0);
}

/** Return the tree of a trace's events. */
export function traceTree(events) {
  const ends = flat(events).map((event) => (event.start_s ?? 0) + (event.seconds ?? 0));
  const whole = Math.max(...ends, 1e-9);
  return el("ul", { class: "trace" }, events.map((event, at) => node(event, whole, `${at}`, 0)));
}

function flat(events) { return (events || []).flatMap((event) => [event, ...flat(event.children)]); }

function node(event, whole, name, depth) {
  const tokens = event.usage?.total_tokens;
  const timed = event.seconds !== null && event.seconds !== undefined;
  const head = [
    el("span", { class: `kind ${/^[a-z]+$/.test(event.kind) ? event.kind : ""}` }, event.kind),
    el("span", { class: "name" }, event.name || ""),
    el("span", { class: "dim right nowrap" }, timed ? seconds(event.seconds) : "", tokens ? ` · ${count(tokens)} tokens` : ""),
    timed ? span(event, whole) : null,
  ];
  const parts = [part("input", event.input), part("output", event.output), part("more", event.more)].filter(Boolean);
  return el("li", { "data-name": name }, el("details", { "data-name": `trace ${name}`, class: parts.length ? null : "bare" }, el("summary", {}, head), parts),
  event.children?.length && depth < DEEPEST
    ? el("ul", {}, event.children.map((child, at) => node(child, whole, `${name}.${at}`, depth + 1))) : null);
}

/** Return a bar that shows when it happened. */
function span(event, whole) {
  const from = ((event.start_s ?? 0) / whole) * WIDTH;
  return el("svg", { class: "span", width: WIDTH, height: 10, viewBox: `0 0 ${WIDTH} 10`, "aria-hidden": "true" },
    el("rect", { class: "axis", x: 0, y: 4, width: WIDTH, height: 2 }),
    el("rect", { class: "band", x: from, y: 1, width: Math.max(2, (event.seconds / whole) * WIDTH), height: 8, rx: 2 }));
}

function part(title, value) {
  if (value === null || value === undefined || value === "") return null;
  return [el("h4", {}, title), messages(value) || longText(textOf(value))];
}

/** Return messages of a chat, each with its role; null: the value is something else. */
function messages(value) {
  const isChat = Array.isArray(value) && value.length && value.every((one) => one && typeof one.role === "string" && "content" in one);
  return isChat ? value.map((one) => el("div", { class: "chat" }, el("span", { class: "dim" }, one.role), longText(textOf(one.content)))) : null;
}
