// All runs below a directory, the newest first.

import { to } from "./address.js";
import { el, fill } from "./dom.js";
import { ago, count, money, plural } from "./format.js";
import { intervalBar, intervalWords } from "./intervals.js";

export function showRuns(root, source) {
  const list = el("div", { class: "runs" });
  fill(root, el("h1", {}, "Runs"), list);
  async function refresh() {
    const { runs } = await source.runs();
    fill(list, runs.length ? table(runs) : el("p", { class: "dim" }, "There are no runs here yet: limpet run eval.yml makes one."));
  }
  return { title: "Runs", refresh };
}

function table(runs) {
  const heads = ["run", "state", "done", "scores", "cost", "last active"];
  return el("table", { class: "plain", "aria-label": "Runs" },
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, runs.map(row)));
}

function row(run) {
  return el("tr", {},
    el("th", { scope: "row" }, el("a", { href: to("run", { run: run.path }) }, run.name), (run.tags || []).map((tag) => el("span", { class: "tag" }, tag))),
    el("td", {}, stateWord(run.state)),
    el("td", {}, `${count(run.done)} of ${count(run.asked)}`, run.failed ? el("div", { class: "bad" }, plural(run.failed, "failure")) : null,
      el("progress", { max: run.asked || 1, value: run.done || 0, "aria-label": "done" })),
    el("td", {}, run.scores.length ? el("div", { class: "scores" }, run.scores.map((score) => [
      el("span", { class: "name" }, score.name), intervalBar(score),
      el("span", { class: "numbers" }, intervalWords(score), score.interim ? " so far" : ""),
    ])) : el("span", { class: "dim" }, "no scores")),
    el("td", {}, money(run.cost)),
    el("td", { class: "dim" }, ago(run.age_s)));
}

/** Return a run's state as a coloured word. */
export function stateWord(state) {
  return el("span", { class: `state ${state.replace(" ", "-")}` }, state);
}
