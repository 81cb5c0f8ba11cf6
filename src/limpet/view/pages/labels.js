// A person's label and note on an item.

import { el, fill } from "./dom.js";

/** Return the form. Keys 1 to 9 choose a label while no field is being typed in. */
export function labelForm(item, run, source, again) {
  const note = el("input", { "aria-label": "Note", placeholder: "note (optional)", value: item.label?.note || "" });
  const own = el("input", { "aria-label": "Another label", placeholder: "another label", class: "short" });
  const said = el("span", { class: "dim", role: "status" });
  const give = async (label) => {
    try {
      await source.label({ run, id: item.id, trial: item.trial, evaluator: item.label_of ?? null, label, note: note.value });
      fill(said, `kept: ${label}`);
      again();
    } catch (error) {
      fill(said, `not kept: ${error.message}`);
    }
  };
  own.addEventListener("change", () => own.value && give(own.value));
  const choices = item.label_choices || [];
  const form = el("section", { class: "label" }, el("h2", {}, "your label"),
    choices.map((label, at) => el("button", {
      type: "button", "aria-pressed": String(item.label?.label === label), "aria-keyshortcuts": String(at + 1),
      "data-key": at + 1, onclick: () => give(label),
    }, `${at + 1} ${label}`)), own, note, said);
  return form;
}
