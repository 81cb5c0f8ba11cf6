// The answers that changed between two runs: how many in which direction, and each of them once.

import { changed, go, to } from "./address.js";
import { el, fill, isTyping, update } from "./dom.js";
import { count, plural, scoreWords } from "./format.js";
import { VirtualTable } from "./table.js";

/** What may happen to a score: the word for it, a sign, a class, and what it means. */
export const DIRECTIONS = {
  better: ["better", "▲", "good", "both runs have a score, and that of the new run is better"],
  worse: ["worse", "▼", "bad", "both runs have a score, and that of the new run is worse"],
  changed: ["changed", "◆", "", "another label: no label is better than another"],
  failed: ["failed now", "▼", "bad", "the base has a score; in the new run, the answer or its evaluator failed"],
  recovered: ["recovered", "▲", "good", "the new run has a score; in the base, the answer or its evaluator failed"],
  same: ["same", "", "dim", "both runs have the same score"],
};
const FILTERS = ["score", "direction", "text", "sort"];
const SEARCH_AGAIN_MS = 50;
const ROW_PX = 30;

/** The change opened last: the list scrolls to it. */
export const lastChange = { runs: "", id: "", trial: 0 };

/** Return which runs a query compares. */
export function runsOf(query) { return `${query.get("base")} → ${query.get("new")}`; }

/** The list of changes: `refresh()` shows what is new, `close()` ends it. */
export function changesList(root, source, query) {
  const totals = el("div", { class: "totals" });
  const note = el("p", { class: "dim", "aria-live": "polite" });
  const target = el("div", { class: "list" });
  const change = (changes) => go("compare", changed(query, changes));
  const search = el("input", {
    type: "search", placeholder: "Search texts  ( / )", "aria-label": "Search ids, input, both answers, errors and reasons",
    value: query.get("text") || "", onchange: (event) => change({ text: event.target.value }),
  });
  const bar = el("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() }, search,
    el("button", { type: "button", "aria-pressed": String(!query.get("sort")), onclick: () => change({ sort: null }) }, "gains and losses in turn"));
  fill(root, el("h2", {}, "Changed answers"), totals, bar, note, target);
  let table = null;
  let drawn = null;
  let searching = null;

  async function rows(from, many) {
    const found = await source.changes(query, from, many);
    update(note, noteOf(found, query));
    target.style.height = `min(75vh, ${(found.matching + 1) * ROW_PX + 24}px)`;
    target.hidden = !found.matching;
    clearTimeout(searching);
    if (found.left_to_search) searching = setTimeout(() => table?.refresh(), SEARCH_AGAIN_MS);
    return found;
  }

  async function refresh() {
    const known = await rows(table ? table.chunk : 0, 100);
    if (known === drawn) return null;
    drawn = known;
    update(totals, totalsOf(known, query));
    if (table) return table.refresh();
    const wasOpen = lastChange.runs === runsOf(query) && lastChange.id;
    const near = wasOpen ? await source.changeNear(query, lastChange.id, lastChange.trial) : null;
    table = new VirtualTable({
      label: "Changed answers", columns: columnsOf(known), sorted: query.get("sort") || "", rows,
      cells: (row) => cells(row, known, query.get("score")), sort: (name) => change({ sort: name }),
      open: (row) => go("pair", changed(query, { id: row.id, trial: row.trial || null })),
    });
    fill(target, table.element);
    await table.draw();
    if (near && near.at !== null) {
      table.moveTo(near.at);
      table.element.focus({ preventScroll: true });
      target.scrollIntoView({ block: "nearest" });
    }
    return null;
  }

  const typing = (event) => {
    if (event.key === "/" && !isTyping()) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && document.activeElement === search) table?.element.focus();
  };
  document.addEventListener("keydown", typing);
  return {
    refresh,
    close() {
      clearTimeout(searching);
      document.removeEventListener("keydown", typing);
      table?.close();
    },
  };
}

/** Return how many answers went where, as links that set the filter. */
function totalsOf(found, query) {
  const link = (words, score, direction, meaning, classes) => {
    const isShown = (query.get("score") || "") === (score || "") && (query.get("direction") || "") === (direction || "");
    return el("a", { class: classes, title: meaning, href: to("compare", changed(query, { score, direction })), "aria-current": isShown ? "true" : null }, words);
  };
  const all = plural(found.changed, "changed answer");
  return [
    el("p", {}, link(`all ${all}`, null, null, "any score changed", ""), el("span", { class: "dim" }, ` of ${count(found.total)}`)),
    el("ul", {}, Object.entries(found.scores).map(([name, of]) => el("li", { "data-name": name }, el("b", {}, name), " ",
      Object.entries(DIRECTIONS).filter(([direction]) => isUsed(direction, of)).map(([direction, [word, sign, classes, meaning]], at) => {
        const words = `${sign ? `${sign} ` : ""}${count(of[direction])} ${word}`;
        return [at ? el("span", { class: "dim" }, " · ") : null, of[direction] ? link(words, name, direction, meaning, classes) : el("span", { class: "dim" }, words)];
      }),
      of.none ? el("span", { class: "dim", title: "left out, missing without a failure, failed in both, or hidden" }, ` · ${count(of.none)} not compared`) : null))),
    found.trials > 1 ? el("p", { class: "dim small" }, "Answers are counted one by one; the table above counts items by the means of their trials.") : null,
  ];
}

/** Whether a direction can happen: numbers get better or worse, labels change. */
function isUsed(direction, of) {
  if (direction === "changed") return of.changed > 0 || !(of.better || of.worse);
  return of.changed > 0 && ["better", "worse"].includes(direction) ? of[direction] > 0 : true;
}

function noteOf(found, query) {
  const direction = DIRECTIONS[query.get("direction")];
  const words = direction ? `${query.get("score") || "any score"} ${direction[0]}: ${direction[3]}` : "gain or loss as a share of the score's range; a failure counts as all of it";
  return [plural(found.matching, "answer"), ` · ${words}`,
    found.left_to_search ? `, ${count(found.left_to_search)} texts left to search` : null,
    found.not_searched ? `, ${count(found.not_searched)} not searched: their texts are not in this file` : null,
    found.not_here ? `, ${count(found.not_here)} more are not in this file, for lack of space` : null,
    FILTERS.some((name) => query.get(name)) ? [" · ", el("a", { href: to("compare", changed(query, Object.fromEntries(FILTERS.map((name) => [name, null])))) }, "no filters")] : null];
}

function columnsOf(known) {
  const several = Object.keys(known.scores).length > 1;
  return [
    { title: "id", sort: "position", ch: 12 }, ...(known.trials > 1 ? [{ title: "trial", align: "right", ch: 6 }] : []),
    { title: "change", sort: "change", ch: several ? 34 : 22 }, { title: "input", ch: 14, grows: true },
    { title: "base", ch: 14, grows: true }, { title: "new", ch: 14, grows: true },
  ];
}

function cells(row, known, score) {
  const answer = ({ output, error }) => (error ? el("span", { class: "bad" }, error) : output ?? el("span", { class: "dim" }, "–"));
  return [
    row.id, ...(known.trials > 1 ? [count(row.trial)] : []),
    // First the score that is filtered by.
    [...row.scores].sort((a, b) => (b.name === score) - (a.name === score)).map((one, at) => [at ? " · " : "", changeWords(one, Object.keys(known.scores).length > 1)]),
    row.input ?? "", answer(row.base), answer(row.new),
  ];
}

/** Return how a score changed: `judge ▲ 0.2 → 0.9`. */
function changeWords({ name, direction, base, new: after }, isNamed) {
  const [, sign, classes] = DIRECTIONS[direction];
  const words = (value, hasFailed) => (hasFailed ? "failed" : typeof value === "string" ? value : scoreWords({ value }));
  return [isNamed ? el("span", { class: "dim" }, `${name} `) : null,
    el("span", { class: classes }, sign ? `${sign} ` : "", `${words(base, direction === "recovered")} → ${words(after, direction === "failed")}`)];
}
