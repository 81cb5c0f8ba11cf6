// How a run was configured, and what changed since it last ran.

import { el, longText, textOf, update } from "./dom.js";
import { count, moment, plural } from "./format.js";

/** A part of the page that is read when it is unfolded. */
export function setupPart(root, source, run) {
  let isOpen = false;
  let shown = null;
  async function load() {
    if (!isOpen) return;
    let found;
    try { found = await source.setup(run); } catch (error) { found = { error: error.message }; }
    if (found === shown) return;
    shown = found;
    draw();
  }
  function draw() {
    update(root, el("details", { "data-name": "setup", ontoggle: (event) => { isOpen = event.target.open; load(); } },
      el("summary", {}, "Configuration, and what changed"), shown ? content(shown) : null));
  }
  draw();
  return { refresh: () => (source.isLive ? load() : null) };
}

function content(found) {
  if (found.error) return el("p", { class: "bad" }, found.error);
  const facts = [["versions", Object.entries(found.versions).map(([name, version]) => `${name} ${version}`).join(", ")],
    ["models", found.models.join(", ")], ["imported from", found.imported.join(", ")],
    ["sessions", found.sessions.map((one) => `${moment(one.began)} (${itemsOf(one)}${one.ended ? "" : ", not ended"})`).join("; ")],
    ["since the session before", since(found.sessions).join("; ")]].filter(([, words]) => words);
  return [
    el("dl", { class: "facts" }, facts.map(([name, words]) => [el("dt", {}, name), el("dd", {}, words)])),
    found.configuration === null ? null : [el("h4", {}, "configuration"), longText(textOf(found.configuration))],
    el("h4", {}, "steps"), el("ul", { class: "steps-of" }, found.steps.map(step)),
    found.remarks.map((remark) => el("p", { class: "small dim" }, remark)),
  ];
}

function itemsOf({ items, trials, selected, of }) {
  return [items === null ? "items unknown" : plural(items, "item") + (trials > 1 ? ` × ${trials} trials` : ""),
    selected === null ? null : `${count(selected)} of ${count(of || 0)} selected`].filter(Boolean).join(", ");
}

/** How the last session differs from the one before it, beside what the steps are made of. */
function since(sessions) {
  const [before, now] = sessions.slice(-2);
  if (!now) return [];
  const lines = [
    itemsOf(before) !== itemsOf(now) ? `${itemsOf(now)}; before: ${itemsOf(before)}` : before.rows && now.rows && before.rows !== now.rows ? "the rows of the dataset changed" : null,
    ...now.steps.filter((name) => !before.steps.includes(name)).map((name) => `${name}: new`),
    ...before.steps.filter((name) => !now.steps.includes(name)).map((name) => `${name}: no longer used`)].filter(Boolean);
  return lines.length ? lines : ["the same items and steps"];
}

function step(one) {
  return el("li", { "data-name": one.name }, el("b", {}, one.name), `: ${one.words}`,
    one.differences.map(({ heading, lines }) => el("div", { "data-name": heading }, el("div", { class: "small" }, heading), lines.length ? difference(lines) : null)),
    one.more ? el("div", { class: "small dim" }, `… and ${one.more} more: limpet why`) : null,
    one.settings.length ? el("dl", { class: "facts small" }, one.settings.map(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])) : null);
}

function difference(lines) {
  const marks = { "-": "del", "+": "ins" };
  return el("pre", { class: "text diff", tabindex: "0" }, lines.map((line) => [el(marks[line[0]] || "span", {}, line), "\n"]));
}
