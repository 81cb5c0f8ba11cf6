// More than two runs: a row each with its scores and its difference from the base, and the runs of a
// matrix as a grid of what they vary.

import { changed, go, spelled, to } from "./address.js";
import { comparing } from "./choose.js";
import { el, table } from "./dom.js";
import { fixed, money, pWords, range, seconds, signed, VERDICTS } from "./format.js";

const LEVELS = 8;

export function severalRuns(found, runs, matrices, query) {
  const lines = new Map(runs.map((run) => [spelled(run.path), run]));
  const base = { path: found.base.run, line: lines.get(found.base.run), amounts: found.new[0].latency?.base, scores: {} };
  const all = [base, ...found.new.map((one) => ({ path: one.run, line: lines.get(one.run), amounts: one.latency?.new, scores: one.scores }))];
  const names = [...new Set(all.flatMap(({ scores }) => Object.keys(scores).filter((name) => "delta" in scores[name])))];
  return [
    [...found.base.notes, ...found.new.flatMap((one) => one.notes)].map((line) => el("p", { class: "warn" }, line)),
    grid(all, names, matrices, query),
    runTable(all, names),
    el("p", { class: "dim small" }, `Each score: the run's own mean with its interval, and below it the difference from the base over the items of both. p is corrected for all ${names.length * found.new.length} comparisons (Holm).`),
  ];
}

function runTable(all, names) {
  const paths = all.map(({ path }) => path);
  const titles = ["run", ...names, ["cost", "right"], ["median time", "right"], "open"];
  return table("Runs compared", titles, all.map((run, at) => el("tr", { "data-name": run.path },
    el("th", { scope: "row" }, el("a", { href: to("run", { run: run.path }) }, run.line?.name ?? run.path), at ? null : el("span", { class: "tag" }, "base"), (run.line?.tags || []).map((tag) => el("span", { class: "tag" }, tag))),
    names.map((name) => el("td", {}, scoreCell(run, name, at === 0))),
    el("td", { class: "right nowrap" }, money(run.line?.cost)), el("td", { class: "right nowrap" }, seconds(run.amounts?.median)),
    el("td", { class: "nowrap" }, at ? [el("a", { href: comparing(paths[0], [run.path]) }, "changes"), " · ",
      el("a", { href: comparing(run.path, paths.filter((path) => path !== run.path)) }, "as base")] : el("span", { class: "dim" }, "–")))));
}

const claimOf = (run, name) => run.line?.scores.find((score) => score.name === name);

function scoreCell(run, name, isBase) {
  const own = el("div", { class: "nowrap" }, claimOf(run, name)?.words ?? "–");
  const score = run.scores[name];
  if (isBase || !score) return [own, isBase ? null : el("div", { class: "dim small" }, "not compared")];
  const { low, high } = score.bounds ?? score;
  const has = low !== null && low !== undefined;
  const [verdict, classes] = VERDICTS[score.verdict] ?? [score.verdict, "dim"];
  return [own, el("div", { class: "small nowrap" }, el("b", {}, signed(score.delta)), has ? el("span", { class: "dim" }, ` (${range(low, high)})`) : null),
    el("div", { class: `small ${classes}` }, has ? `${verdict}, p ${pWords(score.p_holm)}` : score.why_not_known || verdict)];
}

// ---- a matrix as a grid ---------------------------------------------------------------------------

function grid(all, names, matrices, query) {
  const paths = new Map(all.map((run, at) => [run.path, at]));
  const matrix = matrices.find(({ variants }) => all.every(({ path }) => variants.some(({ run }) => spelled(run) === path)));
  if (!matrix || !names.length) return null;
  const variants = matrix.variants.map(({ run, values }) => ({ path: spelled(run), values }));
  const axes = [...new Set(variants.flatMap(({ values }) => Object.keys(values)))];
  const heat = names.includes(query.get("heat")) ? query.get("heat") : names[0];
  const columns = axes.includes(query.get("columns")) ? query.get("columns") : axes.at(-1);
  const rows = axes.filter((axis) => axis !== columns).find((axis, at, rest) => axis === query.get("rows") || (!rest.includes(query.get("rows")) && at === 0)) ?? null;
  const means = all.map((run) => claimOf(run, heat)?.mean).filter((mean) => typeof mean === "number");
  const [low, high] = [Math.min(...means), Math.max(...means)];
  const cell = (variant) => gridCell(variant, all[paths.get(variant.path)], { all, heat, low, high, left: axes.filter((axis) => axis !== rows && axis !== columns) });
  const valuesOf = (axis) => (axis === null ? [null] : [...new Set(variants.map(({ values }) => values[axis] ?? ""))]);
  const pick = (name, chosen, some) => el("label", {}, `${name} `, el("select", { onchange: (event) => go("compare", changed(query, { [name]: event.target.value })) },
    some.map((one) => el("option", { value: one, selected: one === chosen }, one))));
  return el("section", { class: "grid", "data-name": "grid" }, el("h2", {}, matrix.name),
    el("p", { class: "filters" }, pick("heat", heat, names), axes.length > 2 ? [pick("rows", rows, axes.filter((axis) => axis !== columns)), pick("columns", columns, axes)] : null,
      means.length ? el("span", { class: "dim" }, "palest ", fixed(low, 3), " … strongest ", fixed(high, 3)) : null),
    table(`${heat} of ${matrix.name}`, [rows === null ? "axis" : `${rows} \\ ${columns}`, ...valuesOf(columns).map((value) => value || "–")], valuesOf(rows).map((value) =>
      el("tr", { "data-name": String(value) }, el("th", { scope: "row" }, rows === null ? columns : value || "–"),
        valuesOf(columns).map((other) => el("td", {}, variants.filter(({ values }) => (rows === null || (values[rows] ?? "") === value) && (values[columns] ?? "") === other).map(cell)))))));
}

function gridCell(variant, run, { all, heat, low, high, left }) {
  const others = left.map((axis) => `${axis} ${variant.values[axis] ?? "–"}`).join(", ");
  const label = others ? el("span", { class: "small dim" }, `${others} `) : null;
  if (!run) return el("div", { class: "cell dim" }, label, "not compared");
  const mean = claimOf(run, heat)?.mean;
  const level = typeof mean !== "number" ? null : high > low ? Math.round(((mean - low) / (high - low)) * LEVELS) : 0;
  const words = fixed(mean, 3);
  return el("div", { class: level === null ? "cell" : `cell heat-${level}`, "data-name": run.path }, label,
    run === all[0] ? [el("b", {}, words), " base"] : el("a", { href: comparing(all[0].path, [run.path]), "aria-label": `${run.line?.name ?? run.path}: ${words}, compare with the base` }, words),
    run === all[0] ? null : el("div", { class: "small" }, signed(run.scores[heat]?.delta), ` ${VERDICTS[run.scores[heat]?.verdict]?.[0] ?? ""}`));
}
