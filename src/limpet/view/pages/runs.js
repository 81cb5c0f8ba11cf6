// All runs below a directory, the newest first.

import { to } from "./address.js";
import { el, table, update } from "./dom.js";
import { ago, count, money, plural } from "./format.js";
import { intervalBar } from "./intervals.js";

export function showRuns(root, source) {
  const list = el("div", { class: "runs" });
  update(root, el("h1", {}, "Runs"), list);
  async function refresh() {
    const { runs, received } = await source.runs();
    const since = received ? (performance.now() - received) / 1000 : 0;
    update(list, runs.length ? runsTable(runs, since)
      : el("p", { class: "dim" }, "No runs yet. Start one: limpet run eval.yml"));
  }
  return { title: "Runs", refresh };
}

function runsTable(runs, since) {
  const names = [...new Set(runs.flatMap((run) => run.scores.map(({ name }) => name)))];
  // With a few scores, each has its column; otherwise they are stacked.
  const columns = names.length <= 4 ? names : null;
  const costs = runs.some((run) => run.cost);
  const titles = ["run", "state", ["done", "right"], ...(columns || ["scores"]), ...(costs ? [["cost", "right"]] : []), ["last active", "right"]];
  return table("Runs", titles, runs.map((run) => el("tr", { "data-name": run.path },
    el("th", { scope: "row" }, el("a", { href: to("run", { run: run.path }) }, run.name),
      (run.tags || []).map((tag) => el("span", { class: "tag" }, tag))),
    el("td", {}, stateWord(run.state), run.why ? el("div", { class: "bad message" }, run.why) : null),
    el("td", { class: "right" }, doneOf(run), run.note ? el("div", { class: "warn small" }, run.note) : null),
    columns ? columns.map((name) => el("td", {}, scoreIn(run.scores.find((score) => score.name === name))))
      : el("td", {}, run.scores.map((score) => el("div", {}, el("span", { class: "dim" }, score.name, " "), scoreIn(score)))),
    costs ? el("td", { class: "right" }, money(run.cost)) : null,
    el("td", { class: "dim right nowrap" }, ago(run.age_s === null || run.age_s === undefined ? null : run.age_s + since)))));
}

function doneOf(run) {
  return el("div", { class: "done" },
    el("div", { class: "nowrap" }, run.done === run.total ? count(run.done) : `${count(run.done)} of ${count(run.total)}`),
    el("progress", { max: run.total || 1, value: run.done || 0, "aria-label": "done" }),
    run.failed ? el("div", { class: "bad nowrap" }, plural(run.failed, "failure")) : null);
}

function scoreIn(score) {
  if (!score) return el("span", { class: "dim" }, "–");
  if (score.mean === null || score.mean === undefined) return el("span", { class: "dim" }, labelWords(score.labels));
  return el("div", { class: "score" }, intervalBar(score, { width: 96 }),
    el("span", { class: "nowrap" }, score.words, score.interim ? el("span", { class: "dim" }, " so far") : null));
}

/** Return labels with their counts, the most frequent first. */
export function labelWords(labels) {
  const ranked = Object.entries(labels || {}).sort((a, b) => b[1] - a[1]).slice(0, 4);
  return ranked.map(([label, many]) => `${count(many)} ${label}`).join(", ") || "–";
}

/** Return a run's state as a coloured word. */
export function stateWord(state) {
  return el("span", { class: `state ${state.replace(" ", "-")}` }, state);
}
