// Two runs, item by item: which scores changed, by how much, and the answers that changed.

import { changed, go, spelled, to } from "./address.js";
import { diffText } from "./diff.js";
import { el, fill, longText, table, textOf, update } from "./dom.js";
import { count, fixed, money, number, plural, range, scoreWords, seconds, signed } from "./format.js";
import { differenceBar } from "./intervals.js";

export function showCompare(root, source, query) {
  const choice = el("div");
  const shown = el("div");
  fill(root, el("h1", {}, "Compare"), choice, shown);
  let drawn = "";
  async function refresh() {
    if (source.isLive) {
      const { runs } = await source.runs();
      if (!choice.contains(document.activeElement)) update(choice, chooser(runs, query));
    }
    if (source.isLive && !(query.get("base") && query.get("new"))) return;
    const found = await source.compare(query);
    const state = JSON.stringify({ ...found, received: 0 });
    if (state === drawn) return;
    drawn = state;
    if (!source.isLive) update(choice, el("p", {}, el("a", { href: to("run", { run: found.base.run }) }, found.base.run), " → ", el("a", { href: to("run", { run: found.new[0].run }) }, found.new[0].run)));
    update(shown, comparison(found));
  }
  return { title: "Compare", refresh };
}

function chooser(runs, query) {
  const choose = (name) => el("label", {}, name, " ", el("select", {
    "aria-label": name, onchange: (event) => go("compare", changed(query, { [name]: event.target.value })),
  }, el("option", { value: "" }, "choose a run"), runs.map((run) =>
    el("option", { value: run.path, selected: spelled(run.path) === query.get(name) }, run.name))));
  return el("form", { class: "filters" }, choose("base"), " → ", choose("new"));
}

function comparison(found) {
  return found.new.map((one) => [
    notes([...found.base.notes, ...one.notes]), scoreTable(one), labelTables(one), leftOut(one), usedMore(one), changes(one, found.base.run)]);
}

function notes(lines) {
  return lines.map((line) => el("p", { class: "warn" }, line));
}

function scoreTable(one) {
  const scores = Object.entries(one.scores).filter(([, score]) => "delta" in score);
  if (!scores.length) return null;
  // Missing scores widen the interval; p is corrected for the number of comparisons.
  const endsOf = (score) => score.bounds ?? score;
  const titles = ["score", ["base", "right"], ["new", "right"], ["difference", "right"], "", ["items better", "right"], ["same", "right"], ["worse", "right"], [scores.length > 1 ? "p (Holm)" : "p", "right"], ""];
  return table("Differences", titles, scores.map(([name, score]) => el("tr", { "data-name": name },
    el("th", { scope: "row", class: name.length < 24 ? "nowrap" : "" }, name),
    el("td", { class: "right" }, fixed(score.base_mean, 3)), el("td", { class: "right" }, fixed(score.new_mean, 3)),
    el("td", { class: "right nowrap" }, el("b", {}, signed(score.delta)), isNumber(endsOf(score).low) ? el("span", { class: "dim" }, ` (${range(endsOf(score).low, endsOf(score).high)})`) : null),
    el("td", {}, isNumber(endsOf(score).low) ? differenceBar({ ...score, ...endsOf(score) }) : null),
    el("td", { class: "right good" }, count(score.better)), el("td", { class: "right dim" }, count(score.same)), el("td", { class: "right bad" }, count(score.worse)),
    el("td", { class: "right nowrap" }, !isNumber(score.p_holm) ? "–" : score.p_holm < 0.001 ? "< 0.001" : number(Number(score.p_holm.toPrecision(2)))),
    el("td", { class: "dim message" }, [score.why_not_known || score.verdict, score.missing ? `${count(score.missing)} missing${score.bounds ? " counted as worst and as best" : ""}` : null,
      score.verdict === "no difference seen" && isNumber(score.smallest_seen) ? `with ${plural(score.n, "item")}, only differences of ${number(Number(score.smallest_seen.toPrecision(2)))} or more are detectable` : null].filter(Boolean).join(" · ")))));
}

const isNumber = (value) => value !== null && value !== undefined;

function labelTables(one) {
  const labels = Object.entries(one.scores).filter(([, score]) => "changes" in score);
  return labels.map(([name, score]) => [el("h2", {}, `${name}: labels of ${plural(score.n, "item")}`),
    table(`Labels of ${name}`, ["label", ["base", "right"], ["new", "right"]], [...new Set([...Object.keys(score.base), ...Object.keys(score.new)])].map((label) =>
      el("tr", { "data-name": label }, el("th", { scope: "row" }, label),
        el("td", { class: "right" }, count(score.base[label] || 0)), el("td", { class: "right" }, count(score.new[label] || 0)))))]);
}

function leftOut(one) {
  const lines = Object.entries(one.left_out || {}).flatMap(([kind, some]) => some.map((each) =>
    `${each.n ? `${count(each.n)} ` : ""}${kind}${each.name ? ` ${each.name}` : ""} left out: ${each.why}${each.ids?.length ? ` (${each.ids.slice(0, 3).join(", ")})` : ""}`));
  return lines.length ? el("ul", { class: "warn" }, lines.map((line) => el("li", {}, line))) : null;
}

function usedMore(one) {
  const rows = [["seconds per answer", one.latency, seconds], ["cost per answer", one.cost, money]].filter(([, amounts]) => amounts);
  if (!rows.length) return null;
  const titles = ["per answer", ["base", "right"], ["new", "right"], ["base p95", "right"], ["new p95", "right"], ["base total", "right"], ["new total", "right"]];
  return table("Time and money", titles, rows.map(([name, amounts, words]) => el("tr", { "data-name": name }, el("th", { scope: "row" }, name.split(" ")[0]),
    ["mean", "p95", "total"].flatMap((part) => ["base", "new"].map((run) => el("td", { class: "right nowrap" }, words(amounts[run][part])))))));
}

function changes(one, base) {
  const flips = one.flips || [];
  if (!flips.length) return el("p", { class: "dim" }, "No item's score changed.");
  return [el("h2", {}, `${plural(flips.length, "change")}, the biggest first`), flips.map((flip) => {
    const trial = flip.trial || null;
    return el("details", { class: "flip", "data-name": `${flip.score} ${flip.id} ${flip.trial}` },
      el("summary", {}, el("b", {}, flip.id), flip.trial ? ` trial ${flip.trial}` : "", el("span", { class: "dim" }, ` ${flip.score} `),
        el("span", { class: flip.worse ? "bad" : "good" }, `${valueOf(flip.base.value)} → ${valueOf(flip.new.value)}`),
        el("span", { class: "dim one-line" }, ` ${textOf(flip.input).slice(0, 120)}`)),
      el("div", { class: "sides" },
        el("section", {}, el("h2", {}, "input"), longText(textOf(flip.input))),
        el("section", {}, el("h2", {}, el("a", { href: to("item", { run: base, id: flip.id, trial }) }, "base")), longText(textOf(flip.base.output))),
        el("section", {}, el("h2", {}, el("a", { href: to("item", { run: one.run, id: flip.id, trial }) }, "new")), diffText(textOf(flip.base.output), textOf(flip.new.output)))));
  })];
}

function valueOf(value) {
  return typeof value === "string" ? value : scoreWords({ value });
}
