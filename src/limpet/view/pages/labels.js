// A person's label and note on an answer. Digits choose a label, Enter saves it.

import { changed, go, to } from "./address.js";
import { el, fill, isTyping } from "./dom.js";
import { count, plural } from "./format.js";

// Read out by screen readers; it stays when another item is shown.
const aloud = el("div", { role: "status", class: "aloud" });
const last = { id: "", words: "" };

function tell(id, words) {
  Object.assign(last, { id, words });
  if (!aloud.isConnected) document.body.append(aloud);
  fill(aloud, words);
}

/** Return the form, or why there is none. `page` is the state of the item's view. */
export function labelForm(item, near, page) {
  if (!item.labelling) return null;
  if (!item.can_label) return [said(item), item.cannot_label ? el("p", { class: "dim" }, `Labels cannot be saved: ${item.cannot_label}.`) : null];
  const asked = item.labelling;
  const words = page.query.has("draw") || last.id === item.id ? last.words : "";
  const keep = (event) => { event.preventDefault(); give(event.currentTarget, item, page); };
  return el("section", { class: "label", "data-name": "label", "aria-label": "Your label" },
    // A new form only after what was typed is saved: a label from elsewhere must not empty it.
    el("form", { onsubmit: keep, "data-name": `${asked.score} ${page.view.saves || 0}`, onkeydown: leave },
      el("div", { class: "row" }, title(item, page), progress(near, page)),
      field(item),
      el("div", { class: "row" },
        el("label", { class: "note" }, el("span", {}, "Note ", el("kbd", {}, "n")), el("input", { name: "note", value: item.label?.note || "", maxlength: 10000, autocomplete: "off" })),
        el("button", { type: "submit", class: "save" }, item.label?.label == null ? "Save " : "Change ", el("kbd", {}, "Enter")),
        item.label?.label == null ? null : el("button", { type: "button", onclick: () => post(item, page, null, "") }, "Remove")),
      el("p", { class: "fault bad", role: "alert", "data-name": "fault", hidden: !page.view.fault }, page.view.fault || ""),
      el("p", { class: "dim small", "data-name": "said", hidden: !words }, words)),
    said(item));
}

function title(item, { query, run }) {
  const { score, scores } = item.labelling;
  const of = (name) => go("item", changed(query, { score: name }));
  return el("span", { class: "of" }, el("b", {}, "Your label"), scores.length > 1 ? el("label", {}, " for ",
    el("select", { "aria-label": "Score to label", onchange: (event) => of(event.target.value) },
      scores.map((name) => el("option", { selected: name === score }, name)))) : score ? ` for ${score}` : "",
    item.labelling.drawn ? el("a", { class: "tag", href: to("items", { run, draw: 1, score: query.get("score") }) }, "drawn by limpet sample") : null);
}

function progress(near, { query, step }) {
  if (near.labelled === undefined) return null;
  const all = query.has("draw") ? count(near.matching) : plural(near.matching, "answer");
  return el("span", { class: "of" }, el("span", { class: "nowrap" }, `${count(near.labelled)} of ${all} labelled`),
    query.has("draw") ? el("progress", { max: near.matching || 1, value: near.labelled, "aria-label": "labelled" }) : null,
    el("button", { type: "button", disabled: !near.unlabelled, "data-key": "u", onclick: () => step(near.unlabelled) }, "Next unlabelled ", el("kbd", {}, "u")));
}

function field(item) {
  const { kind, choices, range } = item.labelling;
  const given = item.label?.label ?? "";
  if (kind === "choice") {
    return el("fieldset", { class: "choices" }, el("legend", { class: "aloud" }, "Label"), choices.map((choice, at) => el("label", {},
      el("input", {
        type: "radio", name: "label", value: choice, checked: String(given) === choice,
        "data-key": at < 9 ? at + 1 : null, onclick: (event) => event.currentTarget.focus(),
      }), at < 9 ? el("kbd", {}, at + 1) : null, " ", choice)));
  }
  const isNumber = kind === "number";
  return el("label", { class: "note" }, el("span", {}, isNumber && range ? `A number from ${range[0]} to ${range[1]} ` : isNumber ? "A number " : "Label ", el("kbd", {}, "l")),
    el("input", {
      name: "label", value: given, autocomplete: "off", maxlength: 200, required: true, class: isNumber ? "short" : "",
      ...(isNumber ? { type: "number", step: "any", min: range?.[0], max: range?.[1] } : {}),
    }));
}

function said(item) {
  const of = item.labelling;
  const isHidden = of.hidden.includes(of.score);
  const drawn = of.drawn_trials.map((trial) => `trial ${trial}`).join(", ");
  const rest = of.hidden.join(", ");
  return [
    isHidden && of.drawn ? el("p", { class: "dim" }, "The scores are hidden until you label this answer: only an unbiased label can correct a judge's mean.") : null,
    isHidden && !of.drawn ? el("p", { class: "dim" }, `The scores are hidden until the drawn answer, ${drawn}, is labelled.`) : null,
    !isHidden && rest ? el("p", { class: "dim small" }, `Still hidden until you label them: ${rest}. limpet view --read-only hides nothing.`) : null,
    of.has_changed ? el("p", { class: "warn" }, "The answer has changed since it was drawn: its label cannot correct a judge's mean.") : null,
    item.label?.is_of_another ? el("p", { class: "warn" }, "Your label is for an earlier answer.") : null,
    of.drawn && !isHidden && item.label?.label != null ? el("p", { class: "dim small" }, item.label.seen
      ? "You gave this label with the scores visible: an earlier label, if any, corrects the judge's mean."
      : "The scores are visible now: a change is kept, but your first label corrects the judge's mean.") : null,
    item.labels.length ? el("ul", { class: "others", "aria-label": "Labels of others" }, item.labels.map((one) => el("li", {},
      el("b", {}, one.person || "unnamed"), one.score ? ` ${one.score}` : "", ": ", String(one.label), one.note ? el("span", { class: "dim" }, ` ${one.note}`) : null))) : null,
  ];
}

function give(form, item, page) {
  const values = new FormData(form);
  const label = (values.get("label") || "").trim();
  const note = (values.get("note") || "").trim();
  if (!label && !note) complain(page, "Choose a label first.");
  else post(item, page, label || null, note, () => isSaid(form, label, note));
}

/** Return whether a form still says what was sent. */
function isSaid(form, label, note) {
  const values = new FormData(form);
  return (values.get("label") || "").trim() === label && (values.get("note") || "").trim() === note;
}

function complain(page, words) {
  page.view.fault = words;
  const fault = document.querySelector(".label .fault");
  if (fault) fill(fault, words).hidden = false;
}

async function post(item, page, label, note, isDone = () => true) {
  if (page.view.isSending) return;
  page.view.isSending = true;
  const { run, query, source, again, step } = page;
  const words = (all) => (label === null && !note ? `removed: ${item.id}` : `saved: ${label ?? "note"} for ${item.id}${all}`);
  try {
    await source.label({
      run, id: item.id, trial: item.trial, evaluator: item.labelling.score, label, note, answer: item.labelling.answer,
    });
    if (isDone()) page.view.saves = (page.view.saves || 0) + 1;
    const back = changed(query, { id: null, trial: null });
    const near = await source.near(run, back, item.id, item.trial);
    tell(item.id, words(query.has("draw") ? ` · ${count(near.labelled)} of ${count(near.matching)} labelled` : ""));
    page.view.fault = "";
    if (query.has("draw") && label !== null && item.labelling.hidden.includes(item.labelling.score) && near.unlabelled) step(near.unlabelled);
    else await again();
  } catch (error) {
    complain(page, `not saved: ${error.message}`);
  } finally {
    page.view.isSending = false;
  }
}

// Esc leaves a field, and only then the item.
function leave(event) {
  if (event.key !== "Escape") return;
  event.stopPropagation();
  document.activeElement.blur();
}

/** Go to a field of the form by its key. */
export function fieldKey(event) {
  const name = { n: "note", l: "label" }[event.key];
  const found = name && !isTyping() ? document.querySelector(`.label input[name=${name}]:not([type=radio])`) : null;
  if (!found) return false;
  event.preventDefault();
  found.focus();
  return true;
}
