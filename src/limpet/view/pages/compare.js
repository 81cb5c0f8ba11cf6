// Two runs, item by item: what moved, by how much, and the answers that changed.

import { changed, go, to } from "./address.js";
import { diffText } from "./diff.js";
import { el, fill, textOf } from "./dom.js";
import { count, money, number, plural, range, scoreWords, seconds, signed } from "./format.js";
import { differenceBar } from "./intervals.js";

export function showCompare(root, source, query) {
  const place = el("div");
  fill(root, place);
  let drawn = "";
  async function refresh() {
    const runs = source.isLive ? (await source.runs()).runs : [];
    const chosen = query.get("base") && query.get("new");
    const found = chosen || !source.isLive ? await source.compare(query) : null;
    const state = JSON.stringify([runs.map(({ path }) => path), found]);
    if (state === drawn) return;
    drawn = state;
    fill(place, el("h1", {}, "Compare"), source.isLive ? chooser(runs, query) : null,
      found?.error ? el("p", { class: "bad" }, found.error, found.hint ? el("span", { class: "dim" }, ` ${found.hint}`) : null) : null,
      found && !found.error ? comparison(found) : null);
  }
  return { title: "Compare", refresh };
}

function chooser(runs, query) {
  const choose = (name) => el("label", {}, name, " ", el("select", {
    onchange: (event) => go("compare", changed(query, { [name]: event.target.value })),
  }, el("option", { value: "" }, "choose a run"), runs.map((run) =>
    el("option", { value: run.path, selected: run.path === query.get(name) }, run.name))));
  return el("form", { class: "filters" }, choose("base"), choose("new"));
}

function comparison(found) {
  return found.new.map((one) => [
    el("p", {}, el("a", { href: to("run", { run: found.base }) }, found.base), " → ", el("a", { href: to("run", { run: one.run }) }, one.run)),
    scoreTable(one), leftOut(one), usedMore(one), changes(one)]);
}

function scoreTable(one) {
  const heads = ["score", "base", "new", "difference", "", "better / same / worse", "p", ""];
  return el("table", { class: "plain", "aria-label": "Differences" },
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, Object.entries(one.scores).map(([name, score]) => el("tr", {},
      el("th", { scope: "row" }, name),
      el("td", {}, number(score.base_mean)), el("td", {}, number(score.new_mean)),
      el("td", { class: "big" }, signed(score.delta), score.low === null || score.low === undefined ? null : ` (${range(score.low, score.high)})`),
      el("td", {}, score.low === null || score.low === undefined ? null : differenceBar(score)),
      el("td", {}, `${count(score.better)} / ${count(score.same)} / ${count(score.worse)}`),
      el("td", {}, score.p === null || score.p === undefined ? "–" : score.p < 0.001 ? "< 0.001" : number(score.p)),
      el("td", { class: "dim" }, [score.verdict, score.note, score.smallest_seen ? `could only have seen ≥ ${number(score.smallest_seen)}` : null].filter(Boolean).join(" · "))))));
}

function leftOut(one) {
  const words = (one.left_out_words || []);
  return words.length ? el("ul", { class: "warn" }, words.map((line) => el("li", {}, line))) : null;
}

function usedMore(one) {
  const facts = [];
  if (one.cost?.base || one.cost?.new) facts.push(`cost ${money(one.cost.base)} → ${money(one.cost.new)}`);
  if (one.latency?.base || one.latency?.new) facts.push(`seconds per item ${seconds(one.latency.base)} → ${seconds(one.latency.new)}`);
  return facts.length ? el("p", { class: "dim" }, facts.join(" · ")) : null;
}

function changes(one) {
  const flips = one.flips || [];
  if (!flips.length) return el("p", { class: "dim" }, "No item has changed its score.");
  return [el("h2", {}, `${plural(flips.length, "change")}, the biggest first`), flips.map((flip) => el("details", { class: "flip", "data-name": `${flip.id} ${flip.trial} ${flip.score}` },
    el("summary", {}, el("b", {}, flip.id), " ", flip.score, " ",
      el("span", { class: flip.is_worse ? "bad" : "good" }, `${scoreWords(flip.base)} → ${scoreWords(flip.new)}`)),
    el("div", { class: "sides" },
      el("section", {}, el("h4", {}, "input"), el("pre", { class: "text" }, textOf(flip.input))),
      el("section", {}, el("h4", {}, "base → new"), diffText(textOf(flip.base_output), textOf(flip.new_output))))))];
}
