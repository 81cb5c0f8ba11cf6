// One item: what was asked, what came back, how it was scored and why, and what happened inside.

import { changed, go, to } from "./address.js";
import { diffText } from "./diff.js";
import { el, fill, longText, textOf } from "./dom.js";
import { bytes, count, money, number, scoreWords, seconds } from "./format.js";
import { labelForm } from "./labels.js";
import { traceTree } from "./trace.js";

export function showItem(root, source, query) {
  const run = query.get("run") || "";
  const id = query.get("id") || "";
  const trial = Number(query.get("trial") || 0);
  const back = changed(query, { id: null, trial: null });
  const place = el("article", { class: "item" });
  fill(root, place);
  let drawn = "";

  async function refresh(whole = false) {
    const item = await source.item(run, id, trial, whole);
    const state = JSON.stringify(item);
    if (state === drawn) return;
    drawn = state;
    const open = new Set([...place.querySelectorAll("details[open]")].map((node) => node.dataset.name));
    fill(place, body(item, { run, query, back, source, whole: () => refresh(true), again: () => { drawn = ""; refresh(); } }));
    for (const node of place.querySelectorAll("details")) if (open.has(node.dataset.name)) node.open = true;
  }

  async function step(by) {
    const found = await source.items(run, back, 0, 100000);
    const at = found.rows.findIndex((row) => row.id === id && (row.trial || 0) === trial);
    const next = found.rows[at + by];
    if (next) go("item", changed(query, { id: next.id, trial: next.trial || null }));
  }

  const typing = (event) => {
    if (/^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement?.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") go("items", back);
    else if (event.key === "j" || event.key === "ArrowRight") step(1);
    else if (event.key === "k" || event.key === "ArrowLeft") step(-1);
  };
  document.addEventListener("keydown", typing);
  return { title: `${id} in ${run}`, refresh: () => refresh(), close: () => document.removeEventListener("keydown", typing) };
}

function body(item, { run, query, back, source, whole, again }) {
  const trials = Array.from({ length: item.trials || 1 }, (_, at) => at);
  return [
    el("h1", {}, el("a", { href: to("items", back) }, run), " ", item.id),
    trials.length > 1 ? el("nav", { class: "trials", "aria-label": "Trials" }, trials.map((at) =>
      el("a", { href: to("item", changed(query, { trial: at || null })), "aria-current": at === item.trial ? "page" : null }, `trial ${at + 1}`))) : null,
    item.cut ? el("p", { class: "warn" }, `Long texts are cut: ${bytes(item.cut)} are not shown. `, el("button", { onclick: whole }, "Show all")) : null,
    el("div", { class: "sides" },
      side("input", longText(textOf(item.input))),
      item.expected === null || item.expected === undefined ? null : side("expected", longText(textOf(item.expected))),
      side("output", output(item))),
    item.can_label ? labelForm(item, run, source, again) : null,
    item.hidden ? el("p", { class: "dim" }, "The scores are shown when you have given your label.") : scores(item),
    attempts(item),
    folded("trace", `Trace, ${count(countEvents(item.trace))} events`, traceTree(item.trace)),
    folded("row", "Row", longText(textOf(item.row))),
    folded("raw", "Raw JSON", rawJson(item)),
  ];
}

function side(title, ...content) { return el("section", {}, el("h2", {}, title), content); }

function output(item) {
  if (item.error) return el("div", { class: "bad" }, `${item.error.type || item.error.class}: ${item.error.message || ""}`);
  if (item.output === null || item.output === undefined) return el("p", { class: "dim" }, item.status.replace("_", " "));
  const plain = longText(textOf(item.output));
  if (typeof item.output !== "string" || typeof item.expected !== "string" || item.output === item.expected) return plain;
  const diff = diffText(item.expected, item.output);
  diff.hidden = true;
  return [plain, diff, el("button", { "aria-pressed": "false", onclick: (event) => {
    diff.hidden = !diff.hidden;
    plain.hidden = !plain.hidden;
    event.target.setAttribute("aria-pressed", String(!diff.hidden));
  } }, "Differences from the expected")];
}

function scores(item) {
  if (!item.scores?.length) return null;
  return side("scores", el("dl", { class: "item-scores" }, item.scores.map((score) => [
    el("dt", {}, score.name, " ", score.error ? el("span", { class: "bad" }, `failed: ${score.error}`) : el("b", {}, scoreWords(score))),
    el("dd", {}, score.votes ? el("p", { class: "dim" }, score.votes) : null, score.reason ? longText(score.reason) : null,
      score.replies?.length ? folded(`reply ${score.name}`, "What the judge replied", score.replies.map((reply) => longText(textOf(reply)))) : null),
  ])));
}

function attempts(item) {
  const facts = [item.seconds ? seconds(item.seconds) : null, item.cost ? money(item.cost) : null,
    item.tokens ? `${number(item.tokens)} tokens` : null, item.at || null].filter(Boolean).join(" · ");
  const failed = (item.attempts || []).filter((attempt) => attempt.error);
  return [facts ? el("p", { class: "dim" }, facts) : null,
    failed.length ? folded("attempts", `${count(failed.length)} failed attempts`, failed.map((attempt) => [
      el("h4", {}, `attempt ${attempt.n}: ${attempt.class || ""} ${attempt.seconds ? seconds(attempt.seconds) : ""}`), longText(attempt.error)])) : null,
    item.error?.traceback ? folded("traceback", "Traceback", longText(item.error.traceback)) : null];
}

function folded(name, title, ...content) {
  return el("details", { "data-name": name }, el("summary", {}, title), content);
}

function rawJson(item) {
  const text = JSON.stringify(item.raw ?? item, null, 2);
  return [el("button", { onclick: (event) => navigator.clipboard.writeText(text).then(() => fill(event.target, "Copied")) }, "Copy"), longText(text)];
}

function countEvents(events) {
  return (events || []).reduce((sum, event) => sum + 1 + countEvents(event.children), 0);
}
