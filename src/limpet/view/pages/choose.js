// Which runs are compared? Two from lists, or up to twelve ticked, found by name or tag.

import { spelled, to } from "./address.js";
import { el, update } from "./dom.js";
import { count, plural } from "./format.js";

const MOST_RUNS = 12;
const MOST_LISTED = 40;

/** Return the address of a comparison. */
export function comparing(base, others) {
  return to("compare", new URLSearchParams([["base", spelled(base)], ...others.map((one) => ["new", spelled(one)])].filter(([, value]) => value)));
}

/** The chooser: `update(runs, matrices)` shows the runs that there are. */
export function chooser(root, base, others) {
  const ticked = new Set([base, ...others].filter(Boolean));
  const view = { text: "", note: "", runs: [], matrices: [] };
  const open = (from, some) => { window.location.hash = comparing(from, some.filter((one) => one !== from)).slice(1); };
  function draw() {
    update(root, body());
    // A box that a person has touched no longer follows its attribute.
    for (const box of root.querySelectorAll("[type=checkbox]")) box.checked = box.hasAttribute("checked");
  }

  function tick(path, target) {
    view.note = "";
    if (!target.checked) ticked.delete(path);
    else if (ticked.size < MOST_RUNS) ticked.add(path);
    else {
      view.note = `At most ${MOST_RUNS} runs are compared at once: untick one first.`;
    }
    draw();
  }

  function tickAll({ name, variants }) {
    ticked.clear();
    for (const { run } of variants.slice(0, MOST_RUNS)) ticked.add(spelled(run));
    const more = variants.length - MOST_RUNS;
    view.note = more > 0 ? `${name} has ${count(variants.length)} runs: at most ${MOST_RUNS} are compared at once, the last ${count(more)} are not ticked.` : "";
    draw();
  }

  function pick(name, chosen, onchange) {
    return el("label", {}, name, " ", el("select", { "aria-label": name, onchange: (event) => onchange(event.target.value) },
      el("option", { value: "" }, "choose a run"), view.runs.map((run) => el("option", { value: run.path, selected: spelled(run.path) === chosen }, run.name))));
  }

  function body() {
    // As the new base, a run that was compared changes places with the base.
    const setBase = (path) => open(spelled(path), others.includes(spelled(path)) ? [base, ...others] : others);
    return [
      el("form", { class: "filters", onsubmit: (event) => event.preventDefault() }, pick("base", base, setBase), " → ",
        others.length > 1 ? el("span", {}, plural(others.length, "run")) : pick("new", others[0], (path) => open(base, [spelled(path)]))),
      el("details", { class: "choose" }, el("summary", {}, "More than two runs"), several()),
    ];
  }

  function several() {
    const wanted = view.text.toLowerCase();
    const found = view.runs.filter((run) => [run.name, ...(run.tags || [])].some((word) => word.toLowerCase().includes(wanted)));
    const first = base && ticked.has(base) ? base : [...ticked][0];
    return [
      el("p", { class: "filters" },
        el("input", { type: "search", placeholder: "Search names and tags", "aria-label": "Search names and tags", oninput: (event) => { view.text = event.target.value; draw(); } }),
        view.matrices.map((one) => el("button", { type: "button", onclick: () => tickAll(one) }, `all ${count(one.variants.length)} of ${one.name}`)),
        el("button", { type: "button", disabled: ticked.size < 2, onclick: () => open(first, [...ticked]) }, `Compare ${plural(ticked.size, "run")}`)),
      el("p", { class: "warn", role: "status" }, view.note),
      el("ul", { class: "ticked" }, found.slice(0, MOST_LISTED).map((run) => el("li", { "data-name": run.path }, el("label", {}, box(run), run.name,
        (run.tags || []).map((tag) => el("span", { class: "tag" }, tag)))))),
      found.length > MOST_LISTED ? el("p", { class: "dim" }, `${count(found.length - MOST_LISTED)} more: search for them`) : null,
    ];
  }

  function box(run) {
    const path = spelled(run.path);
    return el("input", { type: "checkbox", checked: ticked.has(path), onchange: (event) => tick(path, event.target) });
  }

  return {
    update(runs, matrices) {
      Object.assign(view, { runs, matrices });
      if (!root.contains(document.activeElement)) draw();
    },
  };
}
