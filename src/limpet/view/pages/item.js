// One item: input, output, scores with their reasons, and the trace.

import { changed, go, replace, to } from "./address.js";
import { areShort, diffText } from "./diff.js";
import { el, fill, isTyping, longText, textOf, unfolding, update } from "./dom.js";
import { bytes, count, money, moment, plural, scoreWords, seconds } from "./format.js";
import { picture, unseen } from "./images.js";
import { lastOpened } from "./items.js";
import { fieldKey, labelForm } from "./labels.js";
import { rawSwitch, readable, readableInline } from "./reading.js";
import { countEvents, traceTree } from "./trace.js";

const MOST_COMPARED = 600_000; // an image in a data: URL may be longer

export function showItem(root, source, query) {
  const run = query.get("run") || "";
  const id = query.get("id") || "";
  const trial = Number(query.get("trial") || 0);
  const back = changed(query, { id: null, trial: null });
  Object.assign(lastOpened, { run, id, trial });
  const target = el("article", { class: "item", tabindex: "-1", "aria-label": id });
  fill(root, target);
  if (query.has("draw")) target.focus({ preventScroll: true });  // one after another
  const view = { showsDiff: null, showsRaw: false, whole: false };
  let drawn = [];
  let near = { before: null, after: null, at: null };

  async function refresh() {
    const [item, found] = await Promise.all([source.item(run, id, trial, view.whole, query.get("score")), source.near(run, back, id, trial)]);
    near = found;
    // An unchanged answer is the same object.
    if (drawn[0] === item && drawn[1] === near) return;
    drawn = [item, near];
    draw();
  }

  function draw() {
    update(target, body(drawn[0], near, {
      run, query, back, source, view, step, raw: query.has("raw"), turnRaw,
      again: (changes = {}) => { Object.assign(view, changes); drawn = []; return refresh(); },
    }));
  }

  // In the address, without going there: what is unfolded, scrolled and typed stays.
  function turnRaw() {
    const raw = query.has("raw") ? null : "1";
    for (const one of [query, back]) if (raw) one.set("raw", raw); else one.delete("raw");
    replace("item", query);
    if (drawn.length) draw();
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
    item.texts_left_out ? el("p", { class: "warn" }, "The texts of this item are not in this file, for lack of space.") : el("div", { class: item.expected === null || item.expected === undefined ? "said" : "said with-expected" },
      side("input", readable(item.input, page), images(item, page)),
      item.expected === null || item.expected === undefined ? null : side("expected", readable(item.expected, page)),
      output(item, page)),
    item.labelling?.drawn ? [labelForm(item, near, page), scores(item, page)] : [scores(item, page), labelForm(item, near, page)],
    attempts(item),
    item.trace?.length ? el("section", { "data-name": "trace" }, el("h2", {}, `trace, ${plural(countEvents(item.trace), "event")}`), traceTree(item.trace, page.raw)) : null,
    item.metadata ? unfolding("metadata", "metadata", [item.metadata, page.raw], () => readable(item.metadata, page)) : null,
    fields(item, page),
    el("details", { "data-name": "raw", ontoggle: (event) => event.target.open !== page.view.showsRaw && again({ showsRaw: event.target.open }) },
      el("summary", {}, "everything as JSON"), page.view.showsRaw ? rawJson(item) : null),
    el("p", { class: "dim small" }, el("kbd", {}, "j"), " next ", el("kbd", {}, "k"), " previous ", el("kbd", {}, "r"), " raw text ", el("kbd", {}, "Esc"), " ", el("a", { href: to("items", back) }, "back to the items")),
  ];
}

function heading(item, near, { run, query, back, step, raw, turnRaw }) {
  const trials = Array.from({ length: item.trials || 1 }, (_, at) => at);
  const facts = [item.words, item.in_flight.length ? `in flight: ${item.in_flight.join(", ")}` : null,
    item.seconds ? seconds(item.seconds) : null, item.attempts_made > 1 ? plural(item.attempts_made, "attempt") : null,
    item.tokens ? `${count(item.tokens)} tokens` : null, item.cost ? money(item.cost) : null, item.at ? moment(item.at) : null,
    item.by_current_version ? null : "from an earlier version", item.masked.length ? `secrets masked in ${item.masked.join(", ")}` : null];
  return el("header", { class: "of-item", "data-name": "heading" }, el("div", { class: "title" },
    el("h1", {}, el("a", { href: to("run", { run }) }, run), " / ", el("a", { href: to("items", back) }, "items"), " / ", item.id),
    trials.length > 1 ? el("nav", { class: "trials", "aria-label": "Trials" }, "trial ", trials.map((at) =>
      el("a", { href: to("item", changed(query, { trial: at || null })), "aria-current": at === item.trial ? "page" : null }, String(at)))) : null,
    el("span", { class: "push" }), rawSwitch(raw, turnRaw),
    el("button", { disabled: !near.before, onclick: () => step(near.before), "aria-label": "Previous item" }, "↑"),
    el("button", { disabled: !near.after, onclick: () => step(near.after), "aria-label": "Next item" }, "↓"),
    near.at === null ? null : el("span", { class: "dim nowrap" }, `${count(near.at + 1)} of ${count(near.matching)}`)),
  el("p", { class: "dim" }, facts.filter(Boolean).join(" · ")));
}

function side(title, ...content) { return el("section", { "data-name": title }, el("h2", {}, title), content); }

/** Return the images that fields of the dataset name. */
/** Return the images that fields of an item name. */
export function images(item, { run, source }) {
  return (item.images || []).map((one) => (one.why ? unseen(one.file, one.why) : picture(source.image(run, item, one.file), one.file, one)));
}

function output(item, page) {
  if (item.error) return side("error", el("pre", { class: "text bad" }, `${item.error.type || item.error.class || ""}: ${item.error.message || textOf(item.error)}`));
  if (item.output === null || item.output === undefined) return side("output", el("p", { class: "dim" }, "none"));
  const differs = typeof item.output === "string" && typeof item.expected === "string" && item.output !== item.expected
    && item.output.length + item.expected.length < MOST_COMPARED;
  const isShown = differs && (page.view.showsDiff ?? areShort(item.expected, item.output));
  const title = el("h2", {}, "output ", differs ? el("button", {
    class: "quiet", "aria-pressed": String(isShown), onclick: () => page.again({ showsDiff: !isShown }),
  }, "compare with expected") : null);
  return el("section", { "data-name": "output" }, title, readable(item.output, page), isShown ? [el("h4", {}, "expected → output"), diffText(item.expected, item.output)] : null);
}

function scores(item, page) {
  if (!item.scores?.length) return null;
  return el("section", { "data-name": "scores" }, el("h2", {}, "scores"), el("div", { class: "cards" }, item.scores.map((score) =>
    el("div", { class: "card", "data-name": score.name },
      el("div", { class: "dim" }, score.name),
      score.error ? el("div", { class: "bad" }, score.error) : el("div", { class: "big" }, scoreWords({ value: score.value }), score.label ? el("span", { class: "tag" }, score.label) : null),
      score.votes ? el("div", { class: "dim small" }, `votes: ${score.votes}`) : null,
      reason(score.explanation, page),
      score.replies?.length ? unfolding(`replies ${score.name}`, plural(score.replies.length, "reply", "replies"), [score.replies, page.raw], () => score.replies.map((one) => reply(one, page))) : null,
      score.metadata ? unfolding(`metadata ${score.name}`, "metadata", [score.metadata, page.raw], () => readable(score.metadata, page)) : null,
      el("div", { class: "dim small" }, [score.seconds ? seconds(score.seconds) : null, score.tokens ? `${count(score.tokens)} tokens` : null, score.cost ? money(score.cost) : null].filter(Boolean).join(" · "))))));
}

function reason(value, page) {
  const text = textOf(value);
  return text && text !== "{}" ? el("div", { class: "reason", dir: "auto" }, readableInline(value, page)) : null;
}

function reply(one, page) {
  if (one === null || typeof one !== "object") return readable(one, page);
  const { model, reason: why, ...rest } = one;
  return [el("h4", {}, model || "model"), why ? readable(why, page) : null, Object.keys(rest).length ? readable(rest, page) : null];
}

function attempts(item) {
  const failed = (item.attempts || []).filter((attempt) => attempt.error);
  return [
    failed.length ? el("section", { "data-name": "attempts" }, el("h2", {}, plural(failed.length, "failed attempt")), el("ol", { class: "attempts" }, failed.map((attempt) =>
      el("li", {}, el("span", { class: "dim" }, [attempt.step, `attempt ${attempt.n}`, attempt.class, attempt.seconds ? seconds(attempt.seconds) : null].filter(Boolean).join(" · ")), " ",
        el("span", { class: "message" }, attempt.error))))) : null,
    item.error?.traceback ? folded("traceback", "traceback", longText(item.error.traceback)) : null];
}

function fields(item, page) {
  const own = new Set(Object.values(item.roles || {}));
  if (typeof item.row === "string") return folded("row", "row", longText(item.row));
  const rest = Object.entries(item.row || {}).filter(([name]) => !own.has(name));
  return rest.length ? el("section", { "data-name": "fields" }, el("h2", {}, "other fields"), el("dl", { class: "facts" }, rest.map(([name, value]) =>
    [el("dt", {}, name), el("dd", {}, readableInline(value, page))]))) : null;
}

function folded(name, title, ...content) {
  return el("details", { "data-name": name }, el("summary", {}, title), content);
}

function rawJson(item) {
  const text = JSON.stringify(item.raw ?? item, null, 2);
  return [el("button", { onclick: (event) => navigator.clipboard.writeText(text).then(() => fill(event.target, "Copied")) }, "Copy"), longText(text)];
}
