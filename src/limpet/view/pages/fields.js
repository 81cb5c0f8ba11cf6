// The scores for each value of a field of the dataset, as `limpet show --by` has them.

import { to } from "./address.js";
import { el, table, update } from "./dom.js";
import { count, plural } from "./format.js";
import { intervalBar } from "./intervals.js";

/** Tables that are read when they are unfolded: `set(about)` shows the fields and reads again. */
export function fieldTables(root, source, run) {
  const found = new Map();
  const open = new Set();
  let about = { few_valued: [], scores: [], trials: 1 };
  let chosen = "";
  let isBusy = false;
  let isClosed = false;

  function draw() {
    if (!about.few_valued.length) return void update(root);
    const names = about.scores.map(({ name }) => name);
    const name = names.includes(chosen) ? chosen : names[0];
    const choice = el("select", { "aria-label": "Score of the tables", onchange: (event) => { chosen = event.target.value; draw(); } },
      names.map((one) => el("option", { selected: one === name }, one)));
    update(root, el("h2", {}, "By field", names.length > 1 ? el("span", { class: "pair" }, "score ", choice) : null), about.few_valued.map((field) =>
      el("details", { "data-name": `field ${field}`, ontoggle: (event) => { if (event.target.open) { open.add(field); load(); } else open.delete(field); } },
        el("summary", {}, field), content(field, found.get(field), name))));
  }

  function content(field, data, name) {
    if (!data) return null;
    if (data.error) return el("p", { class: "bad" }, data.error);
    if (!data.values) return el("p", { class: "dim", role: "status" }, `Reading: ${count(data.of - data.left_to_search)} of ${plural(data.of, "answer")} …`);
    const hasFailed = data.values.some(({ failed }) => failed);
    const scores = data.values.map((value) => value.scores.find((score) => score.name === name));
    const ends = scores.flatMap((score) => [score?.mean, score?.low, score?.high]).filter((end) => typeof end === "number");
    const isUnit = ends.every((end) => end >= 0 && end <= 1);
    const among = isUnit ? [0, 1] : [Math.min(...ends), Math.max(...ends)];
    const titles = [field, [about.trials > 1 ? "answers" : "items", "right"], ...(hasFailed ? [["failed", "right"]] : []), name ?? "", "interval", ["against the rest", "rest"]];
    return [
      data.values.length ? table(`By ${field}`, titles, data.values.map((value, at) => row(field, value, scores[at], { hasFailed, among }))) : null,
      data.notes.map((note) => el("p", { class: "small dim" }, note)),
      data.is_stale ? el("p", { class: "small dim" }, "From a moment ago: the run has gone on since.") : null,
    ];
  }

  function row(field, value, score, { hasFailed, among }) {
    const words = value.value === null ? "none" : value.value === "" ? "empty" : value.value;
    const where = `${field}:${value.where}`;
    const isLink = value.where !== null && where.isWellFormed?.() !== false;  // no address holds half characters
    return el("tr", { "data-name": value.value },
      el("th", { scope: "row" }, isLink ? el("a", { href: to("items", { run, where }) }, words) : words),
      el("td", { class: "right" }, count(value.n)),
      hasFailed ? el("td", { class: value.failed ? "right bad" : "right dim" }, value.failed ? count(value.failed) : "–") : null,
      el("td", {}, score ? score.words : "–", score?.interim ? el("span", { class: "dim" }, " so far") : null),
      el("td", {}, typeof score?.mean === "number" ? intervalBar({ ...score, range: score.range || among }) : el("span", { class: "dim" }, "–")),
      el("td", { class: score?.apart ? "rest" : "rest dim" }, score?.apart || (score?.apart === "" ? "may be chance" : "–")));
  }

  async function load() {
    if (isBusy) return;
    isBusy = true;
    for (const field of open) {
      let data = null;
      do {
        try { data = await source.by(run, field); } catch (error) { data = { error: error.message }; }
        if (data !== found.get(field)) {
          found.set(field, data);
          draw();
        }
      } while (data.left_to_search && open.has(field) && !isClosed);
    }
    isBusy = false;
  }

  return {
    set(now) { about = now; draw(); if (source.isLive) load(); },
    close() { isClosed = true; },
  };
}
