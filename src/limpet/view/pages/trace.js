// What happened inside one call: a tree that can be folded, with times, tools and tokens.

import { el, unfolding } from "./dom.js";
import { count, seconds } from "./format.js";
import { oneLine, readable } from "./reading.js";

const WIDTH = 120;
const DEEPEST = 40;

/** Return how many events a trace has. */
export function countEvents(events) {
  return (events || []).reduce((sum, event) => sum + 1 + countEvents(event.children), 0);
}

/** Return the tree of a trace's events; `raw`: with their texts as they are. */
export function traceTree(events, raw = false) {
  const ends = flat(events).map((event) => (event.start_s ?? 0) + (event.seconds ?? 0));
  const whole = Math.max(...ends, 1e-9);
  return el("ul", { class: "trace" }, events.map((event, at) => node(event, whole, `${at}`, 0, raw)));
}

function flat(events) { return (events || []).flatMap((event) => [event, ...flat(event.children)]); }

function node(event, whole, name, depth, raw) {
  const tokens = event.usage?.total_tokens;
  const isTool = event.kind === "tool";
  const timed = event.seconds !== null && event.seconds !== undefined;
  const head = [
    el("span", { class: `kind ${/^[a-z]+$/.test(event.kind) ? event.kind : ""}` }, event.kind),
    el("span", { class: "name" }, event.name || "", isTool ? el("span", { class: "dim" }, ` ${preview(event)}`) : null),
    el("span", { class: "dim right nowrap" }, timed ? seconds(event.seconds) : "", tokens ? ` · ${count(tokens)} tokens` : ""),
    timed ? span(event, whole) : null,
  ];
  const parts = [[isTool ? "arguments" : "input", event.input], [isTool ? "result" : "output", event.output], ["more", event.more]].filter(([, value]) => isThere(value));
  return el("li", { class: "event", "data-name": name },
    unfolding(`trace ${name}`, head, [parts, raw], () => parts.map(([title, value]) => [el("h4", {}, title), readable(value, { raw, name: title })]), { class: parts.length ? null : "bare" }),
    event.children?.length && depth < DEEPEST
      ? el("ul", { class: "events" }, event.children.map((child, at) => node(child, whole, `${name}.${at}`, depth + 1, raw))) : null);
}

const isThere = (value) => value !== null && value !== undefined && value !== "";

/** Return the call of a tool on one line. */
function preview({ input, output }) {
  return [isThere(input) ? oneLine(input) : null, isThere(output) ? `→ ${oneLine(output)}` : null].filter(Boolean).join(" ");
}

/** Return a bar that shows when it happened. */
function span(event, whole) {
  const from = ((event.start_s ?? 0) / whole) * WIDTH;
  return el("svg", { class: "span", width: WIDTH, height: 10, viewBox: `0 0 ${WIDTH} 10`, "aria-hidden": "true" },
    el("rect", { class: "axis", x: 0, y: 4, width: WIDTH, height: 2 }),
    el("rect", { class: "band", x: from, y: 1, width: Math.max(2, (event.seconds / whole) * WIDTH), height: 8, rx: 2 }));
}
