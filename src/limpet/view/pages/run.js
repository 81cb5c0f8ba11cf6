// One run: what came out, how far it is, what holds it up, what failed.

import { to } from "./address.js";
import { timeChart } from "./charts.js";
import { el, fill } from "./dom.js";
import { count, money, number, plural, range, seconds } from "./format.js";
import { intervalBar, intervalWords } from "./intervals.js";
import { stateWord } from "./runs.js";

export function showRun(root, source, query) {
  const run = query.get("run") || "";
  const parts = Object.fromEntries(["head", "scores", "steps", "charts", "flight", "failures", "used"]
    .map((name) => [name, el("section", { class: name })]));
  fill(root, Object.values(parts));
  let charts = null;
  async function refresh() {
    const about = await source.run(run);
    fill(parts.head, heading(about, run));
    fill(parts.scores, headline(about, run));
    fill(parts.steps, steps(about));
    charts = charts || timeCharts(parts.charts);
    charts.set(about.timeline);
    fill(parts.flight, inFlight(about, run));
    fill(parts.failures, failures(about, run));
    fill(parts.used, used(about));
  }
  return { title: run, refresh, close: () => charts?.close() };
}

function heading(about, run) {
  const left = about.time_left_s;
  return [
    el("h1", {}, about.run, " ", stateWord(about.state)),
    about.stop_reason ? el("p", { class: "bad" }, about.stop_reason) : null,
    about.state === "running" && left !== null && left !== undefined
      ? el("p", {}, `about ${seconds(left)} left at this pace`) : null,
    (about.remarks || []).map((remark) => el("p", { class: "warn" }, remark)),
    el("p", {}, el("a", { class: "button", href: to("items", { run }) }, "Look at the items")),
  ];
}

/** Return the scores of a summary, the failure-honest interval first. */
export function scoresOf(about) {
  return about.scores || [];
}

function headline(about, run) {
  const scores = scoresOf(about);
  if (!scores.length) return el("p", { class: "dim" }, "no scores yet");
  return el("table", { class: "plain headline", "aria-label": "Scores" },
    el("thead", {}, el("tr", {}, ["score", "mean", "", "of", ""].map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, scores.map((score) => el("tr", {},
      el("th", { scope: "row" }, score.name),
      el("td", { class: "big" }, intervalWords(score), score.interim ? el("span", { class: "tag" }, "so far") : null),
      el("td", {}, score.mean === null ? null : intervalBar(score, { width: 220 })),
      el("td", {}, plural(score.n, "item"), score.failed ? el("div", { class: "bad" }, `${count(score.failed)} failed`) : null),
      el("td", { class: "dim" }, notes(score, run))))));
}

function notes(score, run) {
  const words = [];
  if (score.completed_mean !== null && score.completed_mean !== undefined && score.bounded) {
    words.push(`${number(score.completed_mean)} of those completed`);
  }
  if (score.method) words.push(score.method);
  if (score.note) words.push(score.note);
  if (score.calibrated) words.push(`by people's labels ${number(score.calibrated.mean)} (${range(score.calibrated.low, score.calibrated.high)})`);
  const labels = Object.entries(score.labels || {}).map(([label, many]) =>
    el("a", { href: to("items", { run, label: `${score.name}:${label}` }) }, `${count(many)} ${label}`));
  return [words.join(" · "), words.length && labels.length ? " · " : "", labels.flatMap((label, at) => (at ? [", ", label] : [label]))];
}

function steps(about) {
  const heads = ["step", "done", "", "per second", "in flight", "retries", "what limits it"];
  return [el("h2", {}, "Steps"), el("table", { class: "plain", "aria-label": "Steps" },
    el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, about.steps.map((step) => el("tr", {},
      el("th", { scope: "row" }, step.name),
      el("td", {}, `${count(step.done)} of ${count(step.asked)}`, step.failed ? el("span", { class: "bad" }, ` ${count(step.failed)} failed`) : null),
      el("td", {}, el("progress", { max: step.asked || 1, value: step.done, "aria-label": `${step.name} done` })),
      el("td", {}, step.rate ? number(step.rate) : "–"),
      el("td", {}, step.in_flight ? count(step.in_flight) : "–"),
      el("td", {}, step.retries ? count(step.retries) : "–"),
      el("td", { class: "dim" }, step.pace || "")))))];
}

function timeCharts(root) {
  const wanted = [
    ["throughput", "finished per second", ["per_s"]],
    ["in flight", "calls in flight", ["in_flight"]],
    ["refused", "refusals per second", ["refused"]],
    ["latency", "seconds per call, median", ["p50_s"]],
  ];
  const charts = wanted.map(([title, unit, names]) => ({ names, chart: timeChart(title, unit) }));
  fill(root, el("h2", {}, "Over time"), el("div", { class: "charts-grid" }, charts.map(({ chart }) => chart.element)));
  return {
    set(timeline) {
      root.hidden = !timeline || timeline.t.length < 2;
      if (!root.hidden) for (const { names, chart } of charts) chart.set(timeline.t, timeline[names[0]]);
    },
    close() { for (const { chart } of charts) chart.close(); },
  };
}

function inFlight(about, run) {
  if (!about.in_flight?.length) return null;
  return [el("h2", {}, "In flight"), el("table", { class: "plain", "aria-label": "In flight" },
    el("thead", {}, el("tr", {}, ["item", "step", "attempt", "for", "most take at most"].map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, about.in_flight.map((call) => el("tr", { class: call.is_stuck ? "stuck" : "" },
      el("th", { scope: "row" }, el("a", { href: to("item", { run, id: call.id }) }, call.id)),
      el("td", {}, call.step), el("td", {}, count(call.attempt)),
      el("td", {}, seconds(call.age_s), call.is_stuck ? el("span", { class: "bad" }, " stuck?") : null),
      el("td", { class: "dim" }, call.p99_s ? seconds(call.p99_s) : "–")))))];
}

function failures(about, run) {
  if (!about.failures?.length) return null;
  return [el("h2", {}, "Failures"), el("table", { class: "plain", "aria-label": "Failures" },
    el("thead", {}, el("tr", {}, ["how many", "step", "class", "message", "items"].map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, about.failures.map((group) => el("tr", {},
      el("th", { scope: "row", class: "bad" }, count(group.count)),
      el("td", {}, group.step), el("td", {}, group.class),
      el("td", { class: "message" }, `${group.type}: ${group.message}`),
      el("td", {}, group.ids.flatMap((id, at) => [at ? ", " : "", el("a", { href: to("item", { run, id }) }, id)])))))),
  el("p", {}, el("a", { href: to("items", { run, failed: 1 }) }, "All items that failed"))];
}

function used(about) {
  const facts = Object.entries(about.used || {}).filter(([, value]) => value !== null && value !== undefined && value !== 0);
  if (!facts.length) return null;
  const words = { cost: money, tokens: count };
  return [el("h2", {}, "Time and money"), el("dl", { class: "facts" }, facts.map(([name, value]) => [
    el("dt", {}, name.replaceAll("_", " ")),
    el("dd", {}, name.startsWith("cost") ? money(value) : (words[name] || (name.includes("seconds") ? seconds : number))(value)),
  ]))];
}
