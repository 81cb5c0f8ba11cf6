// The page: which view it shows, and when it refreshes.

import { read, spelled, to } from "./address.js";
import { showCompare } from "./compare.js";
import { el, fill, isTyping } from "./dom.js";
import { showItem } from "./item.js";
import { showItems } from "./items.js";
import { showPair } from "./pair.js";
import { showRun } from "./run.js";
import { showRuns } from "./runs.js";

const VIEWS = { runs: showRuns, run: showRun, items: showItems, item: showItem, compare: showCompare, pair: showPair };
const EVERY_MS = 1000;

/** Show the pages of a source in the document. */
export function start(source, { first = "runs" } = {}) {
  const main = el("main", { id: "main" });
  const fault = el("p", { class: "fault bad", role: "alert", hidden: true });
  const waiting = el("p", { class: "waiting dim", role: "status", hidden: true }, "Reading …");
  const notes = (source.notes || []).map((note) => el("p", { class: "fault warn" }, note));
  fill(document.body, header(source), notes, fault, waiting, main);
  let shown = null;
  let timer = null;

  const show = () => {
    clearTimeout(timer);
    shown?.close?.();
    const { view, query } = read();
    const name = Object.hasOwn(VIEWS, view) ? view : first;
    // A link to a report need not name its run.
    for (const [key, value] of Object.entries(source.query?.(name) || {})) if (!query.has(key)) query.set(key, spelled(value));
    const page = el("div", { class: `page ${name}` });
    fill(main, page);
    shown = VIEWS[name](page, source, query);
    document.title = `${shown.title || "Runs"} · Limpet`;
    window.scrollTo(0, 0);
    waiting.hidden = false;
    refresh(shown);
  };

  const refresh = async (of) => {
    try {
      if (!document.hidden || !of.drawn) await of.refresh();
      of.drawn = true;
      if (of === shown) fault.hidden = true;
    } catch (error) {
      if (of !== shown) return;
      fill(fault, error.message);
      fault.hidden = false;
    }
    if (of === shown) waiting.hidden = true;
    if (of === shown && source.isLive) timer = setTimeout(() => refresh(of), EVERY_MS);
  };

  window.addEventListener("hashchange", show);
  document.addEventListener("keydown", (event) => {
    const choice = isTyping() || event.ctrlKey || event.metaKey || event.altKey ? null : document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    choice?.click();
  });
  show();
}

function header(source) {
  const links = source.isLive ? [["runs", "Runs"], ["compare", "Compare"]] : source.views;
  return el("header", { class: "top" }, el("a", { class: "skip", href: "#main", onclick: (event) => { event.preventDefault(); document.getElementById("main").querySelector("a, button, [tabindex]")?.focus(); } }, "Skip to the content"),
    el("strong", {}, "Limpet"),
    el("nav", { "aria-label": "Pages" }, links.map(([view, title]) => el("a", { href: to(view, source.query?.(view) || {}) }, title))),
    el("span", { class: "dim" }, source.about || ""));
}
