// How a value is read: a text, Markdown, a chat, a tree of JSON or an image; and the same as the raw
// text. Every value of a dataset, workflow or judge is shown by `readable`.

import { el, fill, longText, showing, textOf, unfolding } from "./dom.js";
import { count, plural } from "./format.js";
import { dataImage, isImage, unseen } from "./images.js";
import { isMarkdown, markdown } from "./markdown.js";

const MOST_JSON = 500_000;
const MOST_RAW = 300_000; // a browser takes minutes to wrap a megabyte without spaces
const MOST_CHILDREN = 100;
const MOST_OPEN = 40;
const LONG = 100;
const ONE_LINE = 80;
const MOST_INLINE = 1_000;
const DEEPEST = 12;

let depth = 0; // messages in results in messages

/**
 * Return an element that shows any value.
 *
 * `raw`: as the text that it is, with a button to copy it. An update leaves the element alone while
 * value and `raw` stay the same.
 */
export function readable(value, { raw = false, name = "value" } = {}) {
  let content;
  depth = 0;
  try {
    content = raw ? rawText(value) : shown(value);
  } catch (error) {
    content = [unseen("This is shown as text", error.message), longText(textOf(value))];
  }
  return showing([value, raw], el("div", { class: "readable", "data-name": name }, content));
}

/** Return the same for a value that is mostly a few words: these as text. */
export function readableInline(value, options = {}) {
  const isLong = value !== null && typeof value === "object";
  return isLong || /\n|^\s*[{[]|^data:/.test(value) || value?.length > MOST_INLINE || isMarkdown(String(value)) ? readable(value, options) : String(value);
}

/** Return the button that switches between reading and raw text, with its key. */
export function rawSwitch(raw, turn) {
  return el("button", { type: "button", "aria-pressed": String(raw), "data-key": "r", onclick: turn }, "raw text ", el("kbd", {}, "r"));
}

function rawText(value) {
  const text = textOf(value);
  return [
    el("button", { type: "button", class: "quiet copy", onclick: (event) => copy(event.currentTarget, text) }, "Copy"),
    text.length > MOST_RAW ? unseen("The beginning", `copy it for all ${count(text.length)} characters`) : null, longText(text.slice(0, MOST_RAW))];
}

function copy(button, text) {
  navigator.clipboard.writeText(text).then(() => fill(button, "Copied"), () => fill(button, "not permitted"));
}

function shown(value) {
  if (typeof value === "string") return textual(value);
  if (value === null || typeof value !== "object") return longText(textOf(value));
  const messages = depth < DEEPEST ? messagesOf(value) : null;
  if (!messages && (depth >= DEEPEST || !isParts(value))) return tree(value, depth === 0);
  depth += 1;
  const made = messages ? conversation(messages.list, messages.rest) : value.map(part);
  depth -= 1;
  return made;
}

function textual(text) {
  if (isImage(text)) return dataImage(text);
  const data = parsed(text);
  if (data) return shown(data);
  const tabindex = depth ? null : "0"; // a part of a message is not scrolled by itself
  if (!isMarkdown(text)) return longText(text, { tabindex });
  const made = markdown(text);
  return typeof made === "string" ? [unseen("Markdown is shown as text", made), longText(text)] : el("div", { class: "text prose", dir: "auto", tabindex }, made);
}

/** Return the object or list that a text is the JSON of; null: it is something else. */
function parsed(text) {
  // A number of many digits would lose some.
  if (!/^\s*[{[]/.test(text) || !/[}\]]\s*$/.test(text) || text.length > MOST_JSON || /\d{16}/.test(text)) return null;
  try { return JSON.parse(text); } catch { return null; }
}

// ---- chats: messages of OpenAI and Anthropic, and items of OpenAI's responses ----------------------

const isObject = (value) => value !== null && typeof value === "object" && !Array.isArray(value);
const OF_A_CALL = new Set(["function_call", "function_call_output", "reasoning"]);

function isMessage(one) {
  return isObject(one) && (typeof one.role === "string" ? "content" in one || Array.isArray(one.tool_calls) : OF_A_CALL.has(one.type));
}

/** Return the messages in a value, and what else it has; null: it has none. */
function messagesOf(value) {
  if (Array.isArray(value)) return value.length && value.every(isMessage) ? { list: value } : null;
  if (isMessage(value) && typeof value.role === "string") return { list: [value] };
  for (const name of ["messages", "choices"]) {
    const list = Object.hasOwn(value, name) && Array.isArray(value[name]) ? value[name].map((one) => (name === "choices" && isObject(one) ? one.message : one)) : [];
    if (list.length && list.every(isMessage)) return { list, rest: without(value, [name]) };
  }
  return null;
}

function without(object, names) {
  const rest = Object.entries(object).filter(([name, value]) => !names.includes(name) && value !== null && value !== undefined);
  return rest.length ? new Map(rest) : null;
}

function conversation(messages, rest) {
  const [some, others] = [messages.slice(0, MOST_CHILDREN), messages.slice(MOST_CHILDREN)];
  const list = el("ol", { class: "chat", tabindex: depth === 1 ? "0" : null }, some.map(message));
  return [list, more(list, others, message), rest ? tree(rest, depth === 1) : null];
}

function message(one) {
  if (!("role" in one)) return el("li", { class: "turn of-tool" }, part(one));
  const { role, name, content, tool_calls: calls, tool_call_id: call } = one;
  const rest = without(one, ["role", "name", "content", "tool_calls", "tool_call_id", "type", "status", "id", "function_call", "refusal"]);
  return el("li", { class: `turn ${/^[a-z]{1,12}$/.test(role) ? `of-${role}` : ""}` },
    el("div", { class: "who" }, el("b", {}, role), typeof name === "string" ? ` ${name}` : null, typeof call === "string" ? el("span", { class: "dim" }, ` answers ${call}`) : null),
    content === null || content === undefined || content === "" ? null : isParts(content) ? content.map(part) : shown(content),
    typeof one.refusal === "string" ? longText(one.refusal) : null,
    Array.isArray(calls) ? calls.map(toolCall) : null, one.function_call ? toolCall(one.function_call) : null,
    rest ? tree(rest) : null);
}

/** Return the call of a tool: its name, its arguments, its id. */
function toolCall(call) {
  if (!isObject(call)) return shown(call);
  const made = isObject(call.function) ? call.function : call;
  const id = call.call_id ?? call.id;
  return el("div", { class: "call" }, el("div", { class: "who" }, el("span", { class: "kind tool" }, "tool"), " ", el("b", {}, String(made.name ?? "")), typeof id === "string" ? el("span", { class: "dim" }, ` ${id}`) : null),
    shown(made.arguments ?? made.input ?? {}));
}

const PARTS = {
  text: (one) => shown(one.text), input_text: (one) => shown(one.text), output_text: (one) => shown(one.text),
  thinking: (one) => [el("div", { class: "dim small" }, "thinking"), shown(one.thinking)],
  refusal: (one) => shown(one.refusal),
  image_url: (one) => image(isObject(one.image_url) ? one.image_url.url : one.image_url), input_image: (one) => image(one.image_url),
  image: (one) => image(isObject(one.source) && one.source.type === "base64" ? `data:${one.source.media_type};base64,${one.source.data}` : one.source?.url),
  tool_use: toolCall, function_call: toolCall,
  tool_result: (one) => result(one.tool_use_id, one.content), function_call_output: (one) => result(one.call_id, one.output),
};

function isParts(value) { return Array.isArray(value) && value.length > 0 && value.length <= MOST_CHILDREN && value.every((one) => isObject(one) && Object.hasOwn(PARTS, one.type)); }

function part(one) { return isObject(one) && Object.hasOwn(PARTS, one.type) ? PARTS[one.type](one) : shown(one); }

function result(id, value) {
  return el("div", { class: "call" }, el("div", { class: "who" }, "result", typeof id === "string" ? el("span", { class: "dim" }, ` of ${id}`) : null), shown(value ?? ""));
}

function image(url) {
  return isImage(url) ? dataImage(url) : unseen("image, not loaded", textOf(url));
}

// ---- JSON as a tree --------------------------------------------------------------------------------

/** Return JSON as a tree that unfolds; a part is built when it is unfolded. */
function tree(value, scrolls = false) {
  const budget = { left: MOST_OPEN };
  const root = el("ul", { class: "tree", tabindex: scrolls ? "0" : null });
  return [branches(root, value, budget), entriesOf(value).length ? null : el("span", { class: "dim" }, brief(value))];
}

function entriesOf(value) {
  if (value instanceof Map) return [...value];
  return Array.isArray(value) ? value.map((one, at) => [at, one]) : Object.entries(value);
}

/** Fill a list with the parts of a value, the first hundred of them. */
function branches(list, value, budget) {
  const entries = entriesOf(value);
  const draw = (entry) => branch(entry, budget);
  fill(list, entries.slice(0, MOST_CHILDREN).map(draw));
  return [list, more(list, entries.slice(MOST_CHILDREN), draw)];
}

function branch([key, value], budget) {
  budget.left -= 1;
  const name = el("span", { class: typeof key === "number" ? "dim" : "key" }, String(key));
  if (value === null || typeof value !== "object") return leaf(name, value);
  const size = entriesOf(value).length;
  if (!size || isPlainList(value)) return el("li", {}, name, " ", el("span", { class: "scalar" }, JSON.stringify(value)));
  const build = () => branches(el("ul", { class: "tree" }), value, { left: 0 });
  const summary = [name, el("span", { class: "dim" }, ` ${brief(value)}`)];
  if (budget.left < size) return el("li", {}, unfolding(`of ${key}`, summary, "", build));
  return el("li", {}, el("details", { open: true }, el("summary", {}, summary), branches(el("ul", { class: "tree" }), value, budget)));
}

/** Return whether a list is short, of numbers and words. */
function isPlainList(value) {
  return Array.isArray(value) && value.length <= 20 && value.every((one) => one === null || typeof one !== "object") && JSON.stringify(value).length <= ONE_LINE;
}

function leaf(name, value) {
  if (typeof value !== "string") return el("li", {}, name, " ", el("span", { class: "scalar" }, String(value)));
  if (isImage(value)) return el("li", {}, name, dataImage(value));
  if (value.length <= LONG && !value.includes("\n")) return el("li", {}, name, " ", el("span", { class: "string" }, `"${value}"`));
  return el("li", {}, name, isMarkdown(value) ? shown(value) : longText(value.slice(0, MOST_RAW)));
}

/** Return the beginning of a value, for one line. */
export function oneLine(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > ONE_LINE ? `${text.slice(0, ONE_LINE)}…` : text;
}

/** Return what a folded part has. */
function brief(value) {
  if (Array.isArray(value)) return `[${value.length ? plural(value.length, "entry", "entries") : ""}]`;
  const names = entriesOf(value).slice(0, 8).map(([name]) => name).join(", ");
  return `{${names.length > ONE_LINE ? `${names.slice(0, ONE_LINE)}…` : names}}`;
}

/** Return a button that adds the next hundred of `rest` to a list; null: there is no rest. */
function more(list, rest, draw) {
  if (!rest.length) return null;
  let next = 0;
  const words = () => `${count(Math.min(MOST_CHILDREN, rest.length - next))} more of ${count(rest.length - next)}`;
  return el("button", {
    type: "button", class: "quiet",
    onclick: (event) => {
      const button = event.currentTarget;
      list.append(...rest.slice(next, next + MOST_CHILDREN).map(draw));
      next += MOST_CHILDREN;
      if (next >= rest.length) button.remove();
      else fill(button, words());
    },
  }, words());
}
