// One answer of two runs, side by side: both outputs with the words that differ, scores and traces.

import { changed, go, to } from "./address.js";
import { DIRECTIONS, lastChange, runsOf } from "./changes.js";
import { areAlike, diffSides } from "./diff.js";
import { el, fill, isTyping, table, textOf, update } from "./dom.js";
import { count, money, plural, scoreWords, seconds } from "./format.js";
import { images } from "./item.js";
import { rawSwitch, readable } from "./reading.js";
import { countEvents, traceTree } from "./trace.js";

export function showPair(root, source, query) {
  const names = [query.get("base") || "", query.get("new") || ""];
  const id = query.get("id") || "";
  const trial = Number(query.get("trial") || 0);
  const back = changed(query, { id: null, trial: null });
  Object.assign(lastChange, { runs: runsOf(query), id, trial });
  const target = el("article", { class: "of-pair", "aria-label": id });
  fill(root, target);
  let drawn = [];
  let near = { before: null, after: null, at: null };
  let isMarked = null; // until somebody chooses: where the answers have something in common

  async function refresh() {
    const [base, next, found] = await Promise.all([...names.map((name) => source.item(name, id, trial)), source.changeNear(back, id, trial)]);
    near = found;
    if (drawn[0] === base && drawn[1] === next && drawn[2] === near) return;
    drawn = [base, next, near];
    const marks = isMarked ?? areAlike(textOf(base.output), textOf(next.output));
    const turn = () => { isMarked = !marks; drawn = []; return refresh(); };
    update(target, body([base, next], near, { names, query, back, source, step, isMarked: marks, turn, raw: query.has("raw") }));
  }

  function step(other) {
    if (other) go("pair", changed(query, { id: other.id, trial: other.trial || null }));
  }

  const typing = (event) => {
    if (isTyping() || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") go("compare", back);
    else if (event.key === "j" || event.key === "ArrowRight") step(near.after);
    else if (event.key === "k" || event.key === "ArrowLeft") step(near.before);
  };
  document.addEventListener("keydown", typing);
  return { title: `${id} in two runs`, refresh, close: () => document.removeEventListener("keydown", typing) };
}

function body(items, near, page) {
  const [base, next] = items;
  const isThere = (value) => value !== null && value !== undefined;
  const expected = isThere(next.expected) ? next.expected : base.expected;
  return [
    heading(next, near, page),
    facts(items, page),
    items.some(({ texts_left_out: isOut }) => isOut) ? el("p", { class: "warn" }, "Some texts of this answer are not in this file, for lack of space.") : null,
    items.some(({ shortened }) => shortened) ? el("p", { class: "warn" }, "Long texts are shortened: the page of the item shows more.") : null,
    el("div", { class: "sides" },
      side("input", "input", readable(isThere(next.input) ? next.input : base.input, page), images(next, { run: page.names[1], source: page.source })),
      isThere(expected) ? side("expected", "expected", readable(expected, page)) : null),
    el("p", {}, el("button", { type: "button", class: "quiet", "aria-pressed": String(page.isMarked), "data-key": "d", onclick: page.turn }, "mark differences ", el("kbd", {}, "d")), " ",
      rawSwitch(page.raw, () => go("pair", changed(page.query, { raw: page.raw ? null : "1" })))),
    both(outputs(items, page), ["base", "new"]),
    scores(items, page),
    items.some(({ trace }) => trace?.length) ? both(items.map((item) => (item.trace?.length ? [el("p", { class: "dim" }, plural(countEvents(item.trace), "event")), traceTree(item.trace, page.raw)] : el("p", { class: "dim" }, "none"))), ["base trace", "new trace"]) : null,
    el("p", { class: "dim small" }, el("kbd", {}, "j"), " next ", el("kbd", {}, "k"), " previous ", el("kbd", {}, "Esc"), " ", el("a", { href: to("compare", page.back) }, "back to the changes")),
  ];
}

function heading(item, near, { query, back, step }) {
  const direction = DIRECTIONS[query.get("direction")];
  const among = [query.get("score"), direction?.[0], query.get("text") ? `with “${query.get("text")}”` : null].filter(Boolean).join(" ");
  return el("header", { class: "of-item", "data-name": "heading" }, el("div", { class: "title" },
    el("h1", {}, el("a", { href: to("compare", back) }, "Compare"), " / ", item.id),
    item.trials > 1 ? el("span", { class: "dim" }, `trial ${item.trial}`) : null,
    el("span", { class: "push" }),
    el("button", { disabled: !near.before, onclick: () => step(near.before), "aria-label": "Previous change" }, "↑"),
    el("button", { disabled: !near.after, onclick: () => step(near.after), "aria-label": "Next change" }, "↓"),
    el("span", { class: "dim" }, near.at === null ? "not among these changes" : `${count(near.at + 1)} of ${count(near.matching)}`, among ? ` · ${among}` : "")));
}

/** Return latency, cost and tokens of both answers. */
function facts(items, { names, query }) {
  const trial = query.get("trial");
  return table("Both answers", ["run", "state", ["time", "right"], ["cost", "right"], ["tokens", "right"], ["attempts", "right"]], items.map((item, at) =>
    el("tr", { "data-name": String(at) },
      el("th", { scope: "row" }, el("span", { class: "dim" }, at ? "new " : "base "), el("a", { href: to("item", { run: names[at], id: item.id, trial }) }, names[at])),
      el("td", {}, item.words), el("td", { class: "right nowrap" }, seconds(item.seconds)), el("td", { class: "right nowrap" }, money(item.cost)),
      el("td", { class: "right" }, count(item.tokens)), el("td", { class: "right" }, count(item.attempts_made)))));
}

function outputs(items, page) {
  if (page.isMarked && items.every(({ error, output }) => !error && output !== null && output !== undefined)) return diffSides(...items.map(({ output }) => textOf(output)));
  return items.map(({ error, output }) => {
    if (error) return el("pre", { class: "text bad" }, `${error.type || error.class || ""}: ${error.message || ""}`);
    return output === null || output === undefined ? el("p", { class: "dim" }, "none") : readable(output, page);
  });
}

/** Return two elements beside each other; on a phone, below each other. */
function both(elements, titles) {
  return el("div", { class: "sides" }, elements.map((one, at) => side(titles[at], titles[at], one)));
}

function side(name, title, ...content) { return el("section", { "data-name": name }, el("h2", {}, title), content); }

function scores(items, page) {
  const names = [...new Set(items.flatMap((item) => (item.scores || []).map(({ name }) => name)))];
  return names.map((name) => el("section", { "data-name": `score ${name}` }, el("h2", {}, name),
    el("div", { class: "sides" }, items.map((item, at) => {
      const score = (item.scores || []).find((one) => one.name === name);
      return el("div", { class: "card", "data-name": String(at) }, el("div", { class: "dim" }, at ? "new" : "base"), scoreOf(score, page));
    }))));
}

function scoreOf(score, page) {
  if (!score) return el("div", { class: "big dim" }, "–");
  return [
    score.error ? el("div", { class: "bad" }, score.error) : el("div", { class: "big" }, scoreWords(score.value === null ? score : { value: score.value }), score.value !== null && score.label ? el("span", { class: "tag" }, score.label) : null),
    score.votes ? el("div", { class: "dim small" }, `votes: ${score.votes}`) : null,
    score.explanation ? readable(score.explanation, page) : null,
  ];
}
