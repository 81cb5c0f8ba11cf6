// Markdown as elements, made from the tokens of markdown-it (markdown-it/, loaded before the
// modules). Text stays text: HTML is not understood, images are not loaded, and what a reader would
// not see otherwise, like the address behind a link, is written out.

import { el, wide } from "./dom.js";

const MOST_LETTERS = 50_000;
const MOST_TOKENS = 20_000;
const MOST_CELLS = 60_000;
const DEEPEST = 30;
const SAFE = /^(?:https?|mailto):/i;
// A plain sentence has none of these: a fence, a heading after a blank line, a table's second line,
// two lines of a list, bold words, a link.
const SIGNS = [
  /^ {0,3}(?:```|~~~)/m, /(?:^|\n[ \t]*\n) {0,3}#{1,6} +\S.*\n[ \t]*\n/, /^ {0,3}\|?(?: *:?-+:? *\|)+ *(?::?-+:? *)?$/m,
  /^ {0,3}(?:[-*+]|\d{1,9}[.)]) +\S.*\n(?:[ \t]*\n)?(?: {2,}\S.*\n)*\s*(?:[-*+]|\d{1,9}[.)]) +\S/m,
  /(?:^|[\s(])\*\*[^\s*][^*\n]{0,300}\*\*/, /(?:^|[^\\])\]\([^()\s]{1,2000}\)/,
];

let parser = null;

function parse(text) {
  if (!parser) {
    parser = window.markdownit("default", { html: false, linkify: false, breaks: true, maxNesting: DEEPEST + 10 });
    parser.disable("reference"); // nobody would see the line that defines a link
    parser.validateLink = () => true; // `link` decides, and shows the address
  }
  return parser.parse(text, {});
}

/** Return whether somebody wrote a text in Markdown. */
export function isMarkdown(text) {
  const begin = text.slice(0, MOST_LETTERS);
  return SIGNS.some((sign) => sign.test(begin));
}

/** Return the elements of a text, or why there are none, as a string. */
export function markdown(text) {
  if (text.length > MOST_LETTERS) return "too long";
  const lines = text.split("\n");
  const bars = lines.reduce((most, line) => Math.max(most, line.split("|").length), 0);
  if (bars > 2 && bars * lines.length > MOST_CELLS) return "its table is too large";
  const tokens = parse(text);
  if (tokens.some((token) => token.level > DEEPEST || token.children?.some(({ level }) => level > DEEPEST))) return "nested too deeply";
  if (tokens.reduce((sum, token) => sum + 1 + (token.children?.length || 0), 0) > MOST_TOKENS) return "it has too many parts";
  if (tokens.some((token, at) => token.type === "table_open" && hidesCells(tokens.slice(at), lines))) return "a row of its table has more cells than its head";
  return elements(tokens);
}

/** Return whether a table leaves out cells, as it does where a row has more than the head. */
function hidesCells([{ map }, ...tokens], lines) {
  const head = tokens.slice(0, tokens.findIndex(({ type }) => type === "tr_close")).filter(({ type }) => type === "th_open").length;
  return lines.slice(map[0], map[1]).some((line) => line.trim().replace(/^\||\|$/g, "").split(/(?<!\\)\|/).length > head);
}

function elements(tokens) {
  const top = { children: [] };
  const open = [top];
  for (const token of tokens) {
    if (token.nesting === 1) {
      open.push({ token, children: [] });
    } else if (token.nesting === -1 && open.length > 1) {
      const { token: began, children } = open.pop();
      open.at(-1).children.push(container(began, children));
    } else {
      open.at(-1).children.push(leaf(token));
    }
  }
  return top.children;
}

const TAGS = new Set(["p", "blockquote", "ul", "ol", "li", "thead", "tbody", "tr", "th", "td", "em", "strong", "s"]);

function container(token, children) {
  const { type, tag } = token;
  if (type === "link_open") return link(token, children);
  if (type === "heading_open") return el("div", { class: `heading ${tag}`, role: "heading", "aria-level": Math.min(6, Number(tag[1]) + 2) }, children);
  if (type === "paragraph_open" && token.hidden) return children; // of a list without blank lines
  if (type === "table_open") return wide(el("table", { class: "plain" }, children));
  const aligned = /right|center/.exec(token.attrGet("style") || "");
  return TAGS.has(tag) ? el(tag, { class: aligned?.[0], start: tag === "ol" ? token.attrGet("start") : null }, children) : children;
}

function leaf(token) {
  switch (token.type) {
    case "inline": return elements(token.children);
    case "code_inline": return el("code", {}, token.content);
    case "code_block": case "fence": return code(token.content, token.info);
    case "softbreak": case "hardbreak": return el("br");
    case "hr": return el("hr");
    case "image": return el("span", { class: "dim" }, `image: ${[token.content, `(${token.attrGet("src")})`, token.attrGet("title")].filter(Boolean).join(" ")}`);
    default: return token.content;
  }
}

/** Return lines of code. `info` says in which language. */
function code(text, info = "") {
  return el("div", { class: "code" }, info ? el("div", { class: "dim small" }, info) : null, el("pre", { tabindex: "0" }, text.replace(/\n$/, "")));
}

function link(token, children) {
  const href = token.attrGet("href");
  const said = el("span", {}, children);
  const isSame = [href, href.replace("mailto:", "")].includes(said.textContent);
  const more = [isSame ? null : `(${href})`, token.attrGet("title")].filter(Boolean).join(" ");
  const shown = SAFE.test(href) ? el("a", { href, rel: "noopener noreferrer", target: "_blank" }, [...said.childNodes]) : said;
  return [shown, more ? el("span", { class: "dim address" }, ` ${more}`) : null];
}
