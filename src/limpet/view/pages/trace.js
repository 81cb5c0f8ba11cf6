// What happened inside one call: a tree that can be folded, with times, tools and tokens.

import { el, longText, textOf } from "./dom.js";
import { count, seconds } from "./format.js";

/** Return the tree of a trace's events. */
export function traceTree(events) {
  if (!events?.length) return el("p", { class: "dim" }, "no trace");
  const longest = Math.max(...events.map((event) => event.seconds || 0), 1e-9);
  return el("ul", { class: "trace" }, events.map((event) => node(event, longest)));
}

function node(event, longest) {
  const tokens = event.usage?.total_tokens;
  const share = Math.min(1, (event.seconds || 0) / longest);
  const head = [
    el("span", { class: `kind ${/^[a-z]+$/.test(event.kind) ? event.kind : ""}` }, event.kind),
    el("span", { class: "name" }, event.name || ""),
    el("span", { class: "dim" }, event.seconds === null || event.seconds === undefined ? "" : seconds(event.seconds)),
    el("meter", { value: share, "aria-hidden": true }),
    tokens ? el("span", { class: "dim" }, `${count(tokens)} tokens`) : null,
  ];
  return el("li", {}, el("details", {}, el("summary", {}, head),
    part("input", event.input), part("output", event.output),
    event.error ? part("error", event.error) : null,
    event.children?.length ? el("ul", {}, event.children.map((child) => node(child, longest))) : null));
}

function part(title, value) {
  if (value === null || value === undefined || value === "") return null;
  return [el("h4", {}, title), longText(textOf(value))];
}
