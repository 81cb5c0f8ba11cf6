// Two runs, item by item: which scores changed, by how much, and every answer that changed. More
// runs: a row each.

import { changed, go, to } from "./address.js";
import { changesList } from "./changes.js";
import { chooser } from "./choose.js";
import { el, fill, table, update } from "./dom.js";
import { count, fixed, money, number, plural, pWords, range, seconds, signed, VERDICTS } from "./format.js";
import { differenceAxis, differenceBar, scaleOf } from "./intervals.js";
import { severalRuns } from "./several.js";

export function showCompare(root, source, query) {
  const base = query.get("base") || "";
  const others = query.getAll("new").filter(Boolean);
  const [choice, shown, list] = [el("div"), el("div"), el("section", { class: "changes" })];
  fill(root, el("h1", {}, "Compare"), choice, shown, list);
  const choose = source.isLive ? chooser(choice, base, others) : null;
  const changes = base && others.length === 1 ? changesList(list, source, query) : null;
  list.hidden = true;
  let drawn = null;
  async function refresh() {
    const asked = base && others.length ? source.compare(query) : null;
    asked?.catch(() => {}); // said below, when the runs to choose from are there
    const [{ runs }, { matrices }] = source.isLive ? await Promise.all([source.runs(), source.matrices()]) : [{ runs: [] }, { matrices: [] }];
    choose?.update(runs, matrices);
    if (!asked) return;
    const found = await asked;
    if (others.length > 1) {
      update(shown, severalRuns(found, runs, matrices, query));
      return;
    }
    if (found !== drawn) {
      drawn = found;
      if (!source.isLive) update(choice, el("p", {}, el("a", { href: to("run", { run: base }) }, base), " → ", el("a", { href: to("run", { run: others[0] }) }, others[0])));
      update(shown, comparison(found, query));
      list.hidden = false;
    }
    await changes.refresh();
  }
  return { title: "Compare", refresh, close: () => changes?.close() };
}

function comparison(found, query) {
  return found.new.map((one) => [
    notes([...found.base.notes, ...one.notes]), scoreTable(one), labelTables(one), leftOut(one), byField(found, one, query), usedMore(one)]);
}

/** Return the differences for each value of a field, as `limpet compare --by` has them. */
function byField(found, one, query) {
  if (!found.fields?.length) return null;
  const chosen = query.get("by") || "";
  const scores = Object.entries(one.scores).filter(([, score]) => score.slices);
  return el("section", { "data-name": "by field" }, el("h2", {}, el("label", {}, "By field ", el("select", {
    onchange: (event) => go("compare", changed(query, { by: event.target.value || null })),
  }, el("option", { value: "" }, "choose a field"), found.fields.map((field) => el("option", { selected: field === chosen }, field))))),
  chosen && !scores.length ? el("p", { class: "dim" }, "Nothing to compare by this field, or answers wait for labels.") : null,
  scores.map(([name, score]) => table(`${name} by ${chosen}`, [chosen, ["items", "right"], ["base", "right"], ["new", "right"], [`difference in ${name}`, "right"], ["p (of all values)", "right"]],
    score.slices.map((slice) => el("tr", { "data-name": String(slice.value) }, el("th", { scope: "row" }, String(slice.value ?? "no value")), el("td", { class: "right" }, count(slice.n)),
      el("td", { class: "right" }, fixed(slice.base_mean, 3)), el("td", { class: "right" }, fixed(slice.new_mean, 3)),
      el("td", { class: "right nowrap" }, isNumber(slice.delta) ? el("b", {}, signed(slice.delta)) : "–", isNumber(slice.low) ? el("span", { class: "dim" }, ` (${range(slice.low, slice.high)})`) : null),
      el("td", { class: "right nowrap" }, isNumber(slice.p_bh) ? pWords(slice.p_bh) : "–"))))));
}

function notes(lines) {
  return lines.map((line) => el("p", { class: "warn" }, line));
}

function scoreTable(one) {
  const scores = Object.entries(one.scores).filter(([, score]) => "delta" in score);
  if (!scores.length) return null;
  const titles = ["score", ["base", "right"], ["new", "right"], ["difference", "right"], "95% interval", ["items better", "right"], ["same", "right"], ["worse", "right"], [scores.length > 1 ? "p (Holm)" : "p", "right"], "verdict"];
  // All scores of one range share a scale.
  const kinds = new Map();
  for (const one of scores) kinds.set(kindOf(one), [...(kinds.get(kindOf(one)) || []), one]);
  return table("Differences", titles, [...kinds.values()].map((some) => {
    const drawn = some.map(([, score]) => ({ ...score, ...endsOf(score) })).filter(({ low }) => isNumber(low));
    const most = drawn.length ? scaleOf(drawn) : null;
    const limits = some[0][1].range;
    return [some.map(([name, score]) => scoreRow(name, score, most)),
      most === null ? null : el("tr", { class: "scale", "data-name": `scale ${kindOf(some[0])}` },
        el("td", { class: "dim small right", colspan: 4 }, limits ? `scores from ${number(limits[0])} to ${number(limits[1])}` : "scores without a range"),
        el("td", { class: "bar" }, differenceAxis(most)), el("td", { colspan: 5 }))];
  }));
}

// A score without a range has a scale of its own.
const kindOf = ([name, { range: limits }]) => (limits ? limits.join(" to ") : `of ${name}`);

// Missing scores widen the interval; p is corrected for the number of comparisons.
const endsOf = (score) => score.bounds ?? score;

function scoreRow(name, score, most) {
  const { low, high } = endsOf(score);
  const has = isNumber(low);
  return el("tr", { "data-name": name },
    el("th", { scope: "row", class: name.length < 24 ? "nowrap" : "" }, name),
    el("td", { class: "right" }, fixed(score.base_mean, 3)), el("td", { class: "right" }, fixed(score.new_mean, 3)),
    el("td", { class: "right nowrap" }, el("b", {}, signed(score.delta)), has ? el("span", { class: "dim" }, ` (${range(low, high)})`) : null),
    el("td", { class: "bar" }, has ? differenceBar({ ...score, low, high }, most) : el("span", { class: "dim" }, "–")),
    el("td", { class: "right good" }, count(score.better)), el("td", { class: "right dim" }, count(score.same)), el("td", { class: "right bad" }, count(score.worse)),
    el("td", { class: "right nowrap" }, has ? pWords(score.p_holm) : "–"),
    el("td", { class: "message" }, el("b", { class: VERDICTS[score.verdict]?.[1] }, has ? VERDICTS[score.verdict]?.[0] ?? score.verdict : "–"), el("span", { class: "dim" }, verdictWords(score))));
}

function verdictWords(score) {
  const has = isNumber(endsOf(score).low);
  const seen = score.verdict === "no difference seen" && has && isNumber(score.smallest_seen);
  const words = [has ? null : score.why_not_known || "no interval: no item changed, and without a range that says nothing about others",
    score.missing ? `${count(score.missing)} missing${score.bounds ? " counted as worst and as best" : ""}` : null,
    seen ? `with ${plural(score.n, "item")}, only differences of ${number(Number(score.smallest_seen.toPrecision(2)))} or more are detectable` : null].filter(Boolean).join(" · ");
  return words && ` · ${words}`;
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
