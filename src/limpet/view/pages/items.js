// Every item of a run in one table: sort it, filter it, open one. All of that is in the address.

import { changed, go, replace, to } from "./address.js";
import { el, fill } from "./dom.js";
import { count, money, plural, scoreWords, seconds } from "./format.js";
import { VirtualTable } from "./table.js";

const FILTERS = ["failed", "below", "above", "label", "text", "where", "disagree", "draw"];

export function showItems(root, source, query) {
  const run = query.get("run") || "";
  const bar = el("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() });
  const note = el("p", { class: "dim", "aria-live": "polite" });
  const place = el("div", { class: "fill" });
  fill(root, el("h1", {}, el("a", { href: to("run", { run }) }, run), " items"), bar, note, place);
  let table = null;
  let known = null;

  const change = (changes) => go("items", changed(query, changes));
  async function rows(from, many) {
    const found = await source.items(run, query, from, many);
    fill(note, found.matching === found.total ? plural(found.total, "item") : `${count(found.matching)} of ${plural(found.total, "item")}`,
      FILTERS.some((name) => query.has(name)) ? [" · ", el("a", { href: to("items", { run }) }, "all items")] : null);
    return found;
  }

  async function refresh() {
    if (table) return table.refresh();
    known = await rows(0, 1);
    fill(bar, filterBar(known, query, change));
    table = new VirtualTable({
      label: `Items of ${run}`, columns: columnsOf(known), sorted: query.get("sort") || "",
      rows, cells: (row) => cells(row, known), sort: (name) => change({ sort: name }),
      open: (row) => go("item", changed(query, { id: row.id, trial: row.trial || null })),
    });
    fill(place, table.element);
    await table.draw();
    const opened = Number(query.get("at"));
    if (opened) { table.current = opened - 1; table.move(1); }
    table.element.focus({ preventScroll: true });
    return null;
  }

  const typing = (event) => {
    if (event.key === "/" && document.activeElement?.tagName !== "INPUT") {
      event.preventDefault();
      bar.querySelector("input[type=search]")?.focus();
    }
  };
  document.addEventListener("keydown", typing);
  return {
    title: `${run} items`, refresh,
    close() {
      if (table && table.current > 0) replace("items", changed(query, { at: table.current }));
      document.removeEventListener("keydown", typing);
      table?.close();
    },
  };
}

function columnsOf(known) {
  const scores = known.columns.filter(({ kind }) => kind === "score" || kind === "label");
  return [
    { title: "id", sort: "id" }, ...(known.trials > 1 ? [{ title: "trial", align: "right" }] : []),
    { title: "input" }, { title: "output" },
    ...scores.map(({ name }) => ({ title: name, align: "right", sort: name })),
    { title: "time", align: "right", sort: "seconds" },
    ...(known.columns.some(({ name }) => name === "cost") ? [{ title: "cost", align: "right", sort: "cost" }] : []),
  ];
}

function cells(row, known) {
  const scores = known.columns.filter(({ kind }) => kind === "score" || kind === "label");
  return [
    row.id, ...(known.trials > 1 ? [count(row.trial + 1)] : []),
    row.input ?? "", row.error ? el("span", { class: "bad" }, row.error) : row.output ?? el("span", { class: "dim" }, row.status),
    ...scores.map(({ name }) => scoreWords(row.scores[name])),
    row.seconds ? seconds(row.seconds) : "",
    ...(known.columns.some(({ name }) => name === "cost") ? [money(row.cost)] : []),
  ];
}

function filterBar(known, query, change) {
  const scores = known.columns.filter(({ kind }) => kind === "score").map(({ name }) => name);
  const text = el("input", {
    type: "search", placeholder: "Search input and output  ( / )", "aria-label": "Search input and output",
    value: query.get("text") || "",
    onchange: (event) => change({ text: event.target.value }),
  });
  const toggle = (name, title) => el("label", {}, el("input", {
    type: "checkbox", checked: query.has(name), onchange: (event) => change({ [name]: event.target.checked ? "1" : null }),
  }), title);
  return [
    text, toggle("failed", "failed"), known.can_disagree ? toggle("disagree", "judges disagree") : null,
    known.has_draw ? toggle("draw", "drawn for labels") : null,
    scores.length ? scoreFilter(scores, query, change) : null,
    known.fields?.length ? fieldFilter(known.fields, query, change) : null,
    [...query.getAll("where"), ...query.getAll("label")].map((one) => chip(one, query, change)),
  ];
}

function scoreFilter(scores, query, change) {
  const [name = scores[0], limit = ""] = splitLast(query.get("below") || "");
  const which = el("select", { "aria-label": "Score" }, scores.map((score) => el("option", { selected: score === name }, score)));
  const below = el("input", { type: "number", step: "any", class: "short", value: limit, placeholder: "any", "aria-label": "Below" });
  const apply = () => change({ below: below.value === "" ? null : `${which.value}:${below.value}` });
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
  const value = el("input", { class: "short", placeholder: "value", "aria-label": "Value of the field" });
  value.addEventListener("change", () => value.value && change({ where: [...query.getAll("where"), `${which.value}:${value.value}`] }));
  return el("span", { class: "pair" }, which, " is ", value);
}

function chip(text, query, change) {
  const without = (name) => query.getAll(name).filter((one) => one !== text);
  return el("button", {
    class: "chip", type: "button", "aria-label": `Remove the filter ${text}`,
    onclick: () => change({ where: without("where"), label: without("label") }),
  }, text, " ×");
}
