// All runs below a directory, the newest first.

import { changed, replace, to } from "./address.js";
import { el, fill, isTyping, table, update } from "./dom.js";
import { ago, count, money, plural } from "./format.js";
import { intervalBar } from "./intervals.js";

const SHORT = 40;
const narrow = window.matchMedia("(max-width: 700px)");

export function showRuns(root, source, given) {
  let query = given;
  let answer = null;
  const bar = el("div", { class: "filters", role: "search" });
  const note = el("span", { class: "dim", "aria-live": "polite" });
  const list = el("div", { class: "runs" });
  const search = el("input", { type: "search", placeholder: "Search runs  ( / )", "aria-label": "Search names and tags", value: query.get("text") || "", oninput: () => change({ text: search.value }) });
  const chips = el("span", { class: "pair" });
  fill(root, el("h1", {}, "Runs"), fill(bar, search, chips, note), list);

  // The address changes without a new page: the field keeps the focus.
  function change(changes) {
    query = changed(query, changes);
    replace("runs", query);
    draw();
  }

  function toggle(tag) {
    const tags = query.getAll("tag");
    change({ tag: tags.includes(tag) ? tags.filter((one) => one !== tag) : [...tags, tag] });
  }

  function draw() {
    if (!answer) return;
    const { runs, received } = answer;
    const since = received ? (performance.now() - received) / 1000 : 0;
    const found = runs.filter((run) => matches(run, query));
    bar.hidden = !runs.length;
    update(chips, query.getAll("tag").map((tag) => el("button", { class: "chip", type: "button", "data-name": tag, "aria-label": `Remove the filter ${tag}`, onclick: () => toggle(tag) }, tag, " ×")));
    update(note, found.length < runs.length ? `${count(found.length)} of ${plural(runs.length, "run")}` : plural(runs.length, "run"));
    update(list, !runs.length ? el("p", { class: "dim" }, "No runs yet. Start one: limpet run eval.yml")
      : found.length ? runsTable(found, since, toggle) : el("p", { class: "dim" }, "No run has this name or tag."));
  }

  async function refresh() {
    answer = await source.runs();
    draw();
  }

  const typing = (event) => {
    if (event.key === "/" && !isTyping()) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && document.activeElement === search) search.blur();
  };
  document.addEventListener("keydown", typing);
  return { title: "Runs", refresh, close: () => document.removeEventListener("keydown", typing) };
}

/** Return whether a run has all the words in its name or tags, and all the tags. */
function matches(run, query) {
  const tags = run.tags || [];
  const text = [run.name, ...tags].join(" ").toLowerCase();
  const words = (query.get("text") || "").toLowerCase().split(/\s+/);
  return words.every((word) => text.includes(word)) && query.getAll("tag").every((tag) => tags.includes(tag));
}

function runsTable(runs, since, toggle) {
  const names = [...new Set(runs.flatMap((run) => run.scores.map(({ name }) => name)))];
  // With a few scores and enough room, each has its column; otherwise they are stacked.
  const columns = names.length <= 4 && !narrow.matches ? names : null;
  const costs = runs.some((run) => run.cost);
  const state = ["state", (run) => el("td", {}, stateWord(run.state_now), run.why ? el("div", { class: "bad message" }, run.why) : null)];
  const done = [["done", "right"], (run) => el("td", { class: "right" }, doneOf(run), run.note ? el("div", { class: "warn small" }, run.note) : null)];
  const scores = columns ? columns.map((name) => [name, (run) => el("td", {}, scoreIn(run.scores.find((score) => score.name === name)))])
    : [["scores", (run) => el("td", {}, run.scores.map((score) => el("div", { class: "stacked" }, el("span", { class: "dim" }, score.name, " "), scoreIn(score))))]];
  const shown = [
    ["run", (run) => el("th", { scope: "row" }, el("a", { href: to("run", { run: run.path }) }, run.name),
      (run.tags || []).map((tag) => el("button", { type: "button", class: "tag", title: "Show only runs with this tag", onclick: () => toggle(tag) }, tag)))],
    // A narrow page has room for two columns: what people came for comes first.
    ...(narrow.matches ? [...scores, state, done] : [state, done, ...scores]),
    ...(costs ? [[["cost", "right"], (run) => el("td", { class: "right nowrap" }, money(run.cost))]] : []),
    [["last active", "right"], (run) => el("td", { class: "dim right nowrap" }, ago(run.age_s === null || run.age_s === undefined ? null : run.age_s + since))],
  ];
  return table("Runs", shown.map(([title]) => title), runs.map((run) => el("tr", { "data-name": run.path }, shown.map(([, cell]) => cell(run)))));
}

function doneOf(run) {
  return el("div", { class: "done" },
    el("div", { class: "nowrap" }, run.done === run.total ? count(run.done) : `${count(run.done)} of ${count(run.total)}`),
    el("progress", { max: run.total || 1, value: run.done || 0, "aria-label": "done" }),
    run.failed ? el("div", { class: "bad nowrap" }, plural(run.failed, "failure")) : null);
}

function scoreIn(score) {
  if (!score) return el("span", { class: "dim" }, "–");
  if (score.mean === null || score.mean === undefined) return el("span", { class: "dim", title: labelWords(score.labels) }, labelWords(score.labels, SHORT));
  return el("div", { class: "score" }, intervalBar(score, { width: 96 }) || el("span", { class: "no-bar" }),
    el("span", { class: "nowrap" }, score.words, score.interim ? el("span", { class: "dim" }, " so far") : null));
}

/** Return labels with their counts, the most frequent first. */
function labelWords(labels, most = Infinity) {
  const ranked = Object.entries(labels || {}).sort((a, b) => b[1] - a[1]).slice(0, 4);
  return ranked.map(([label, many]) => `${count(many)} ${label.length > most ? `${label.slice(0, most)}…` : label}`).join(", ") || "–";
}

/** Return a run's state as a coloured word. */
export function stateWord(state) {
  return el("span", { class: `state ${state.replace(" ", "-")}` }, state);
}
