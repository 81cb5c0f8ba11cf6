// Orders to a run that is running: pause, go on, stop, another pace. The answer comes when it is done.

import { el, update } from "./dom.js";

/** Return a function that gives orders, and shows what came of them. */
export function ordersFor(run, source, again) {
  const said = { words: "", isBad: false };
  const give = async (...order) => {
    Object.assign(said, { words: `${order[0]} …`, isBad: false });
    show(said);
    try {
      const { done } = await source.order({ run, order });
      Object.assign(said, { words: done, isBad: false });
    } catch (error) {
      Object.assign(said, { words: error.message, isBad: true });
    }
    show(said);
    await again().catch(() => {});
  };
  return Object.assign(give, { said });
}

function show(said) {
  const node = document.querySelector(".orders .said");
  if (node) update(node, said.words);
}

/** Return the buttons, if this page may give orders. */
export function orderButtons(about, give) {
  const { said } = give;
  const words = el("p", { class: `said small ${said.isBad ? "bad" : "dim"}`, role: "status", "data-name": "said" }, said.words);
  if (!about.can_order) return said.words ? words : null;
  const pace = (event) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    give("pace", form.get("pace").trim(), ...(form.has("of") ? [form.get("of")] : []));
  };
  const paced = about.steps.filter((step) => step.pace).map((step) => step.name);
  return [
    el("form", { class: "filters", "data-name": "orders", onsubmit: pace },
      about.paused
        ? el("button", { type: "button", "data-name": "resume", onclick: () => give("resume") }, "Resume")
        : el("button", { type: "button", "data-name": "pause", onclick: () => give("pause") }, "Pause"),
      el("button", { type: "button", onclick: () => give("stop"), disabled: about.stopping, title: "Calls in flight end, and everything finished is kept" }, "Stop"),
      el("label", {}, "Calls at once ", el("input", { name: "pace", class: "short", placeholder: "auto", autocomplete: "off", required: true })),
      paced.length > 1 ? el("label", {}, "of ", el("select", { name: "of" }, paced.map((name) => el("option", {}, name)))) : null,
      el("button", { type: "submit" }, "Set")),
    words,
  ];
}
