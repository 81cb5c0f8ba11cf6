// Every item of a run in one table, to sort, filter and open. The address holds all of that.

import { changed, go, replace, to } from "./address.js";
import { el, fill, isTyping, update } from "./dom.js";
import { count, money, plural, scoreWords, seconds } from "./format.js";
import { VirtualTable } from "./table.js";

const FILTERS = ["failed", "below", "above", "least", "most", "label", "text", "where", "disagree", "draw", "labelled"];
const SEARCH_AGAIN_MS = 50;

/** The item opened last: the table scrolls to it. */
export const lastOpened = { run: "", id: "", trial: 0 };

export function showItems(root, source, given) {
  let query = given;
  const run = query.get("run") || "";
  const bar = el("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() });
  const note = el("p", { class: "dim", "aria-live": "polite" });
  const target = el("div", { class: "fill" });
  fill(root, el("div", { class: "title" }, el("h1", {}, el("a", { href: to("run", { run }) }, run), " items"), note), bar, target);
  let table = null;
  let known = null;
  let shape = "";
  let searching = null;

  const change = (changes) => go("items", changed(query, changes));
  async function rows(from, many) {
    const found = await source.items(run, query, from, many);
    known = found;
    update(note, noteOf(found, run, query));
    clearTimeout(searching);
    if (found.left_to_search) searching = setTimeout(() => table?.refresh().catch(() => {}), SEARCH_AGAIN_MS);
    return found;
  }

  async function refresh() {
    if (table) await table.refresh();
    else await rows(0, 100);
    const now = JSON.stringify([known.columns, known.trials, hasLabels(known)]);
    if (now === shape) return;
    shape = now;
    if (!bar.contains(document.activeElement)) fill(bar, filterBar(known, query, change), chooser(known, query, choose, source.isLive));
    await build();
    if (!bar.contains(document.activeElement)) table.element.focus({ preventScroll: true });
  }

  async function build() {
    const wasOpen = !table && lastOpened.run === run && lastOpened.id;
    const near = wasOpen ? await source.near(run, query, lastOpened.id, lastOpened.trial) : null;
    const before = table;
    const columns = shownColumns(known, query, source.isLive);
    table = new VirtualTable({
      label: `Items of ${run}`, columns, sorted: query.get("sort") || "",
      rows, cells: (row) => columns.map(({ cell }) => cell(row)), sort: (name) => change({ sort: name }),
      open: (row) => go("item", changed(query, { id: row.id, trial: row.trial || null })),
      find: async (row) => (await source.near(run, query, row.id, row.trial)).at,
    });
    before?.close();
    fill(target, table.element);
    await table.draw();
    if (before) table.restore(before);
    else if (near && near.at !== null) table.moveTo(near.at, lastOpened);
  }

  // The address changes without a new page, so that the chooser stays open and keeps the focus.
  function choose(names) {
    query = changed(query, { columns: names });
    replace("items", query);
    build();
  }

  const typing = (event) => {
    if (event.key === "/" && !isTyping()) {
      event.preventDefault();
      bar.querySelector("input[type=search]")?.focus();
    } else if (event.key === "Escape") {
      bar.querySelector("details")?.removeAttribute("open");
      if (bar.contains(document.activeElement)) table?.element.focus();
      else go("run", { run });
    }
  };
  document.addEventListener("keydown", typing);
  return {
    title: `${run} items`, refresh,
    close() {
      clearTimeout(searching);
      document.removeEventListener("keydown", typing);
      table?.close();
    },
  };
}

function noteOf(found, run, query) {
  const all = plural(found.total, found.trials > 1 ? "answer" : "item");
  const inFile = found.total - (found.not_searched || 0);
  return [found.matching === found.total ? all : `${count(found.matching)} of ${all}`,
    found.left_to_search ? `, searched ${count(inFile - found.left_to_search)} of ${count(inFile)}` : null,
    found.not_searched ? `, ${count(found.not_searched)} not searched: their texts are not in this file` : null,
    FILTERS.some((name) => query.has(name)) ? [" · ", el("a", { href: to("items", without(query, FILTERS)) }, "no filters")] : null];
}

function without(query, names) { return changed(query, Object.fromEntries(names.map((name) => [name, null]))); }

const scoresOf = (known) => known.columns.filter(({ kind }) => kind === "score" || kind === "label");
const hasLabels = (known) => Boolean(known.has_draw || known.has_labels);
const hasCost = (known) => known.columns.some(({ name }) => name === "cost");

// Every column; those that always stay have no key. Widths in letters. Input and output share the
// remaining width, at least this much.
function columnsOf(known, isLive) {
  const answer = (row) => (row.error ? el("span", { class: "bad" }, row.error) : row.output ?? el("span", { class: "dim" }, row.status.replaceAll("_", " ")));
  return [
    { title: "id", sort: "position", ch: 16, cell: (row) => row.id },
    ...(known.trials > 1 ? [{ title: "trial", align: "right", ch: 6, cell: (row) => count(row.trial) }] : []),
    { key: "input", title: "input", ch: 12, grows: true, cell: (row) => row.input ?? "" },
    { key: "output", title: "output", ch: 12, grows: true, cell: answer },
    // A report has the rows' fields only among its texts.
    ...(isLive ? known.fields || [] : []).map((name) => ({ key: `field:${name}`, title: name, ch: 13, isExtra: true, cell: (row) => own(row.fields, name) ?? "" })),
    ...scoresOf(known).map(({ name }) => ({ key: `score:${name}`, title: name, align: "right", sort: name, ch: 13, cell: (row) => scoreCell(row, name) })),
    ...(hasLabels(known) ? [{ key: "label", title: "your label", ch: 13, cell: (row) => row.label ?? "" }] : []),
    { key: "time", title: "time", align: "right", sort: "seconds", ch: 10, cell: (row) => (row.seconds ? seconds(row.seconds) : "") },
    ...(hasCost(known) ? [{ key: "cost", title: "cost", align: "right", sort: "cost", ch: 11, cell: (row) => (row.cost ? money(row.cost) : "") }] : []),
  ];
}

const own = (object, name) => (object && Object.hasOwn(object, name) ? object[name] : null);
const isShown = ({ key, isExtra }, query) => !key || (query.has("columns") ? query.getAll("columns").includes(key) : !isExtra);

function shownColumns(known, query, isLive) { return columnsOf(known, isLive).filter((column) => isShown(column, query)); }

function chooser(known, query, choose, isLive) {
  const boxes = columnsOf(known, isLive).filter(({ key }) => key).map((column) =>
    [column.key, el("input", { type: "checkbox", checked: isShown(column, query), onchange: () => chosen() }), column.title]);
  // "id" stands for no other column.
  const chosen = () => choose(["id", ...boxes.filter(([, box]) => box.checked).map(([key]) => key)]);
  return el("details", { class: "chooser" }, el("summary", { class: "button" }, "Columns"),
    el("fieldset", {}, el("legend", { class: "aloud" }, "Columns"), boxes.map(([, box, title]) => el("label", {}, box, " ", title))));
}

function scoreCell(row, name) {
  const failed = row.failed_scores?.[name] ?? row.failed_scores?.[name.split(".")[0]];
  if (failed) return el("span", { class: "bad" }, "failed");
  const score = row.scores[name];
  if (!score) return el("span", { class: "dim" }, row.hidden ? "hidden" : "–");
  const { value, label } = score;
  if (value === null || value === undefined) return scoreWords(score);
  return [label ? el("span", { class: "dim by-label" }, `${label} `) : null, el("span", {}, typeof value === "number" && !Number.isInteger(value) && Math.abs(value) < 1000 ? value.toFixed(3) : scoreWords({ value }))];
}

function filterBar(known, query, change) {
  const scores = known.columns.filter(({ kind }) => kind === "score").map(({ name }) => name);
  const text = el("input", {
    type: "search", placeholder: "Search texts  ( / )", "aria-label": "Search input, output, errors and reasons",
    value: query.get("text") || "",
    onchange: (event) => change({ text: event.target.value }),
  });
  const toggle = (name, title) => el("button", {
    type: "button", "aria-pressed": String(query.has(name)), onclick: () => change({ [name]: query.has(name) ? null : "1" }),
  }, title);
  return [
    text, toggle("failed", ["", "1"].includes(query.get("failed") ?? "") ? "failed" : `${query.get("failed")} failed`), known.can_disagree ? toggle("disagree", "judges disagree") : null,
    known.has_draw ? toggle("draw", "drawn for labels") : null,
    hasLabels(known) ? toggle("labelled", "labelled") : null,
    scores.length ? scoreFilter(scores, query, change) : null,
    known.fields?.length ? fieldFilter(known.fields, query, change) : null,
    query.getAll("below").filter((one) => one !== belowOf(scores, query)).map((one) => chip("below", one, query, change)),
    ["above", "least", "most", "where", "label"].flatMap((name) => query.getAll(name).map((one) => chip(name, one, query, change))),
  ];
}

/** The limit in the field; others are chips. */
function belowOf(scores, query) { return query.getAll("below").find((one) => scores.includes(splitLast(one)[0])) || ""; }

function scoreFilter(scores, query, change) {
  const shown = belowOf(scores, query);
  const others = query.getAll("below").filter((one) => one !== shown);
  const [name = scores[0], limit = ""] = splitLast(shown);
  const which = el("select", { "aria-label": "Score" }, scores.map((score) => el("option", { selected: score === name }, score)));
  const below = el("input", { type: "number", step: "any", class: "short", value: limit, placeholder: "any", "aria-label": "Below" });
  const apply = () => change({ below: [...others, ...(below.value === "" ? [] : [`${which.value}:${below.value}`])] });
  which.addEventListener("change", () => below.value !== "" && apply());
  below.addEventListener("change", apply);
  return el("span", { class: "pair" }, which, " below ", below);
}

function splitLast(text) {
  const at = text.lastIndexOf(":");
  return at < 0 ? [] : [text.slice(0, at), text.slice(at + 1)];
}

function fieldFilter(fields, query, change) {
  const which = el("select", { "aria-label": "Field" }, fields.map((field) => el("option", {}, field)));
  const value = el("input", { class: "short", placeholder: "any", "aria-label": "Value of the field" });
  value.addEventListener("change", () => value.value && change({ where: [...query.getAll("where"), `${which.value}:${value.value}`] }));
  return el("span", { class: "pair" }, which, " is ", value);
}

const BETWEEN = { above: " above ", below: " below ", least: " at least ", most: " at most " };

function chip(name, text, query, change) {
  const words = name in BETWEEN ? splitLast(text).join(BETWEEN[name]) : text.replace(":", ": ");
  return el("button", {
    class: "chip", type: "button", "aria-label": `Remove the filter ${words}`,
    onclick: () => change({ [name]: query.getAll(name).filter((one) => one !== text) }),
  }, words, " ×");
}
