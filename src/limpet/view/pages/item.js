// One item: input, output, scores with their reasons, and the trace.

import { changed, go, to } from "./address.js";
import { diffText } from "./diff.js";
import { el, fill, isTyping, longText, textOf, update } from "./dom.js";
import { bytes, count, money, moment, plural, scoreWords, seconds } from "./format.js";
import { lastOpened } from "./items.js";
import { fieldKey, labelForm } from "./labels.js";
import { countEvents, traceTree } from "./trace.js";

export function showItem(root, source, query) {
  const run = query.get("run") || "";
  const id = query.get("id") || "";
  const trial = Number(query.get("trial") || 0);
  const back = changed(query, { id: null, trial: null });
  Object.assign(lastOpened, { run, id, trial });
  const target = el("article", { class: "item", tabindex: "-1", "aria-label": id });
  fill(root, target);
  if (query.has("draw")) target.focus({ preventScroll: true });  // one after another
  const view = { showsDiff: false, showsRaw: false, whole: false };
  let drawn = [];
  let near = { before: null, after: null, at: null };

  async function refresh() {
    const [item, found] = await Promise.all([source.item(run, id, trial, view.whole, query.get("score")), source.near(run, back, id, trial)]);
    near = found;
    // An unchanged answer is the same object.
    if (drawn[0] === item && drawn[1] === near) return;
    drawn = [item, near];
    update(target, body(item, near, {
      run, query, back, source, view, step,
      again: (changes = {}) => { Object.assign(view, changes); drawn = []; return refresh(); },
    }));
  }

  function step(other) {
    if (other) go("item", changed(query, { id: other.id, trial: other.trial || null }));
  }

  const typing = (event) => {
    if (isTyping() || event.ctrlKey || event.metaKey || event.altKey || fieldKey(event)) return;
    const choosing = document.activeElement?.matches("[type=radio]");  // its arrows are its own
    if (event.key === "Escape") go("items", back);
    else if (event.key === "j" || (event.key === "ArrowRight" && !choosing)) step(near.after);
    else if (event.key === "k" || (event.key === "ArrowLeft" && !choosing)) step(near.before);
  };
  document.addEventListener("keydown", typing);
  return { title: `${id} in ${run}`, refresh, close: () => document.removeEventListener("keydown", typing) };
}

function body(item, near, page) {
  const { back, source, again } = page;
  return [
    heading(item, near, page),
    item.shortened ? el("p", { class: "warn" }, `Long texts are shortened: ${bytes(item.shortened)} are not shown. `, source.isLive ? el("button", { onclick: () => again({ whole: true }) }, "Show more") : null) : null,
    item.texts_left_out ? el("p", { class: "warn" }, "The texts of this item are not in this file, for lack of space.") : el("div", { class: "sides" },
      side("input", longText(textOf(item.input))),
      item.expected === null || item.expected === undefined ? null : side("expected", longText(textOf(item.expected))),
      output(item, page)),
    item.labelling?.drawn ? [labelForm(item, near, page), scores(item)] : [scores(item), labelForm(item, near, page)],
    attempts(item),
    item.trace?.length ? el("section", { "data-name": "trace" }, el("h2", {}, `trace, ${plural(countEvents(item.trace), "event")}`), traceTree(item.trace)) : null,
    item.metadata ? folded("metadata", "metadata", longText(textOf(item.metadata))) : null,
    fields(item),
    el("details", { "data-name": "raw", ontoggle: (event) => event.target.open !== page.view.showsRaw && again({ showsRaw: event.target.open }) },
      el("summary", {}, "everything as JSON"), page.view.showsRaw ? rawJson(item) : null),
    el("p", { class: "dim small" }, el("kbd", {}, "j"), " next ", el("kbd", {}, "k"), " previous ", el("kbd", {}, "Esc"), " ", el("a", { href: to("items", back) }, "back to the items")),
  ];
}

function heading(item, near, { run, query, back, step }) {
  const trials = Array.from({ length: item.trials || 1 }, (_, at) => at);
  const facts = [item.words, item.in_flight.length ? `in flight: ${item.in_flight.join(", ")}` : null,
    item.seconds ? seconds(item.seconds) : null, item.attempts_made > 1 ? plural(item.attempts_made, "attempt") : null,
    item.tokens ? `${count(item.tokens)} tokens` : null, item.cost ? money(item.cost) : null, item.at ? moment(item.at) : null,
    item.by_current_version ? null : "from an earlier version", item.masked.length ? `secrets masked in ${item.masked.join(", ")}` : null];
  return el("header", { class: "of-item", "data-name": "heading" }, el("div", { class: "title" },
    el("h1", {}, el("a", { href: to("run", { run }) }, run), " / ", el("a", { href: to("items", back) }, "items"), " / ", item.id),
    trials.length > 1 ? el("nav", { class: "trials", "aria-label": "Trials" }, "trial ", trials.map((at) =>
      el("a", { href: to("item", changed(query, { trial: at || null })), "aria-current": at === item.trial ? "page" : null }, String(at)))) : null,
    el("span", { class: "push" }),
    el("button", { disabled: !near.before, onclick: () => step(near.before), "aria-label": "Previous item" }, "↑"),
    el("button", { disabled: !near.after, onclick: () => step(near.after), "aria-label": "Next item" }, "↓"),
    near.at === null ? null : el("span", { class: "dim nowrap" }, `${count(near.at + 1)} of ${count(near.matching)}`)),
  el("p", { class: "dim" }, facts.filter(Boolean).join(" · ")));
}

function side(title, ...content) { return el("section", { "data-name": title }, el("h2", {}, title), content); }

function output(item, { view, again }) {
  if (item.error) return side("error", el("pre", { class: "text bad" }, `${item.error.type || item.error.class || ""}: ${item.error.message || textOf(item.error)}`));
  if (item.output === null || item.output === undefined) return side("output", el("p", { class: "dim" }, "none"));
  const differs = typeof item.output === "string" && typeof item.expected === "string" && item.output !== item.expected;
  const title = el("h2", {}, "output ", differs ? el("button", {
    class: "quiet", "aria-pressed": String(view.showsDiff), onclick: () => again({ showsDiff: !view.showsDiff }),
  }, "compare with expected") : null);
  return el("section", { "data-name": "output" }, title, differs && view.showsDiff ? diffText(item.expected, item.output) : longText(textOf(item.output)));
}

function scores(item) {
  if (!item.scores?.length) return null;
  return el("section", { "data-name": "scores" }, el("h2", {}, "scores"), el("div", { class: "cards" }, item.scores.map((score) =>
    el("div", { class: "card", "data-name": score.name },
      el("div", { class: "dim" }, score.name),
      score.error ? el("div", { class: "bad" }, score.error) : el("div", { class: "big" }, scoreWords({ value: score.value }), score.label ? el("span", { class: "tag" }, score.label) : null),
      score.votes ? el("div", { class: "dim small" }, `votes: ${score.votes}`) : null,
      reason(score.explanation),
      score.replies?.length ? folded(`replies ${score.name}`, plural(score.replies.length, "reply", "replies"), score.replies.map(reply)) : null,
      score.metadata ? folded(`metadata ${score.name}`, "metadata", longText(textOf(score.metadata))) : null,
      el("div", { class: "dim small" }, [score.seconds ? seconds(score.seconds) : null, score.tokens ? `${count(score.tokens)} tokens` : null, score.cost ? money(score.cost) : null].filter(Boolean).join(" · "))))));
}

function reason(value) {
  const text = textOf(value);
  return text && text !== "{}" ? el("p", { class: "reason", dir: "auto" }, text) : null;
}

function reply(one) {
  if (one === null || typeof one !== "object") return longText(textOf(one));
  const { model, reason: why, ...rest } = one;
  return [el("h4", {}, model || "model"), longText([why, Object.keys(rest).length ? textOf(rest) : null].filter(Boolean).join("\n\n"))];
}

function attempts(item) {
  const failed = (item.attempts || []).filter((attempt) => attempt.error);
  return [
    failed.length ? el("section", { "data-name": "attempts" }, el("h2", {}, plural(failed.length, "failed attempt")), el("ol", { class: "attempts" }, failed.map((attempt) =>
      el("li", {}, el("span", { class: "dim" }, [attempt.step, `attempt ${attempt.n}`, attempt.class, attempt.seconds ? seconds(attempt.seconds) : null].filter(Boolean).join(" · ")), " ",
        el("span", { class: "message" }, attempt.error))))) : null,
    item.error?.traceback ? folded("traceback", "traceback", longText(item.error.traceback)) : null];
}

function fields(item) {
  const own = new Set(Object.values(item.roles || {}));
  if (typeof item.row === "string") return folded("row", "row", longText(item.row));
  const rest = Object.entries(item.row || {}).filter(([name]) => !own.has(name));
  return rest.length ? el("section", { "data-name": "fields" }, el("h2", {}, "other fields"), el("dl", { class: "facts" }, rest.map(([name, value]) =>
    [el("dt", {}, name), el("dd", {}, typeof value === "object" && value !== null ? longText(textOf(value)) : String(value))]))) : null;
}

function folded(name, title, ...content) {
  return el("details", { "data-name": name }, el("summary", {}, title), content);
}

function rawJson(item) {
  const text = JSON.stringify(item.raw ?? item, null, 2);
  return [el("button", { onclick: (event) => navigator.clipboard.writeText(text).then(() => fill(event.target, "Copied")) }, "Copy"), longText(text)];
}
