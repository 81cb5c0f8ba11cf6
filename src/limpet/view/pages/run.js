// One run: its scores, its progress, what slows it down, what failed.

import { to } from "./address.js";
import { timeCharts } from "./charts.js";
import { el, fill, longText, table, update } from "./dom.js";
import { count, money, moment, number, plural, seconds } from "./format.js";
import { fieldTables } from "./fields.js";
import { intervalBar } from "./intervals.js";
import { orderButtons, ordersFor } from "./orders.js";
import { stateWord } from "./runs.js";
import { setupPart } from "./setup.js";
import { amountShapes, scoreShape } from "./shape.js";

const PARTS = ["head", "orders", "scores", "steps", "flight", "failures", "fields", "charts", "used", "setup"];

export function showRun(root, source, query) {
  const run = query.get("run") || "";
  const parts = Object.fromEntries(PARTS.map((name) => [name, el("section", { class: name })]));
  fill(root, Object.values(parts));
  let charts = null;
  const fields = fieldTables(parts.fields, source, run);
  const setup = setupPart(parts.setup, source, run);
  const give = ordersFor(run, source, () => refresh());
  async function refresh() {
    let about = await source.run(run, !charts);
    if (about.is_first) {
      update(parts.head, heading(about, run), el("p", { class: "dim", role: "status" }, "Reading the results …"));
      update(parts.steps, steps(about));
      about = await source.run(run);
    }
    update(parts.head, heading(about, run));
    update(parts.orders, orderButtons(about, give));
    update(parts.scores, headline(about, run));
    update(parts.steps, steps(about));
    update(parts.flight, inFlight(about, run, give));
    update(parts.failures, failures(about, run));
    fields.set(about);
    charts ||= timeCharts(parts.charts);
    charts.set(about.timeline);
    update(parts.used, used(about), amountShapes(about.shape.times, run));
    setup.refresh();
  }
  return { title: run, refresh, close: () => { charts?.close(); fields.close(); } };
}

function heading(about, run) {
  const trials = about.steps[0] && about.summary.n ? plural(about.summary.n, "answer requested", "answers requested") : null;
  const time = seconds(about.state === "running" ? Math.round(about.seconds) : about.seconds);
  const took = `${about.state === "running" ? "for" : "took"} ${about.seconds_are_all ? "" : "at least "}${time}`;
  const calls = about.steps.reduce((sum, step) => sum + step.done + step.failed + step.retries, 0);
  const cost = (about.used || []).reduce((sum, step) => sum + (step.cost || 0), 0);
  const facts = [trials, about.began ? `began ${moment(about.began)}` : null,
    about.seconds ? took + (about.sessions > 1 ? ` in ${plural(about.sessions, "session")}` : "") : null,
    calls ? plural(calls, "call") : null, cost ? money(cost) : null];
  return [
    el("div", { class: "title" }, el("h1", {}, about.run), stateWord(about.stopping ? "stopping" : about.paused ? "paused" : about.state),
      (about.tags || []).map((tag) => el("span", { class: "tag" }, tag)),
      el("span", { class: "push" }),
      labelLink(about, run),
      el("a", { class: "button", href: to("items", { run }) }, "Items"),
      about.can_compare === false ? null : el("a", { class: "button", href: to("compare", { new: run }) }, "Compare")),
    el("p", { class: "dim" }, facts.filter(Boolean).join(" · ")),
    about.stop_reason ? el("p", { class: "bad" }, about.stop_reason) : null,
    (about.remarks || []).map((remark) => el("p", { class: "warn" }, remark)),
  ];
}

// The answers drawn by `limpet sample`, in random order.
function labelLink(about, run) {
  const { drawn, labelled, unlabelled, in_file: inFile, person } = about.labels || {};
  if (!drawn || !about.can_label) return null;
  const words = `Label: ${count(labelled)} of ${count(drawn)} done${person ? ` by ${person}` : ""}${inFile ? `, ${inFile === labelled ? "" : `${count(inFile)} `}in a file` : ""}`;
  const where = unlabelled ? to("item", { run, draw: 1, id: unlabelled.id, trial: unlabelled.trial || null }) : to("items", { run, draw: 1 });
  return el("a", { class: "button", href: where }, words);
}

function headline(about, run) {
  if (!about.scores.length) return el("p", { class: "dim" }, "no evaluators");
  return el("div", { class: "cards" }, about.scores.map((score) => el("div", { class: "card", "data-name": score.name },
    el("div", { class: "dim" }, score.name, score.interim ? el("span", { class: "tag" }, "so far") : null),
    score.mean === null || score.mean === undefined
      ? el("div", { class: "big" }, "–")
      : [el("div", { class: "big" }, score.words), intervalBar(score, { width: 240 })],
    el("div", { class: "small dim" }, notes(score)),
    shapeOf(about, score, run) || labelLinks(score, run),
    el("div", { class: "small" },
      score.mean === null || score.mean === undefined ? null : el("a", { href: to("items", { run, sort: score.higher_is_better ? score.name : `-${score.name}` }) }, "worst first"),
      score.failed ? [" · ", el("a", { class: "bad", href: to("items", { run, failed: score.name.split(".")[0] }) }, `${count(score.failed)} failed`)] : null))));
}

function shapeOf(about, score, run) {
  const shape = about.shape.scores.find(({ name }) => name === score.name);
  return shape?.n ? [scoreShape(shape, run), shape.labels ? null : labelLinks(score, run)] : null;
}

function notes(score) {
  const of = score.beside || plural(score.n, "score");
  const failed = score.missing ? `${count(score.missing)} failed, counted as worst and as best` : null;
  const waiting = score.waiting ? `${count(score.waiting)} not scored yet, covered by the range` : null;
  return [of, score.method && !score.bounded ? "95% interval" : null, failed, waiting, ...score.notes].filter(Boolean).join(" · ");
}

function labelLinks(score, run) {
  const ranked = Object.entries(score.labels || {}).sort((a, b) => b[1] - a[1]).slice(0, 6);
  if (!ranked.length) return null;
  return el("div", { class: "small" }, ranked.map(([label, many], at) => [at ? " · " : null,
    el("a", { href: to("items", { run, label: `${score.name}:${label}` }) }, `${count(many)} ${label}`)]));
}

function steps(about) {
  const isRunning = about.state === "running";
  const titles = ["step", ["done", "right"], "", ["failed", "right"], ["retries", "right"],
    ...(isRunning ? [["in flight", "right"], ["per second", "right"], ["left", "right"]] : []), [isRunning ? "pace" : "", "rest"]];
  return [el("h2", {}, "Progress"), table("Steps", titles, about.steps.map((step) => el("tr", { "data-name": step.name },
    el("th", { scope: "row" }, step.name),
    el("td", { class: "right nowrap" }, step.done === step.total ? count(step.done) : `${count(step.done)} of ${count(step.total)}`),
    el("td", {}, el("progress", { max: step.total || 1, value: step.done, "aria-label": `${step.name} done` })),
    el("td", { class: step.failed ? "right bad" : "right dim" }, step.failed ? count(step.failed) : "–"),
    el("td", { class: "right dim" }, step.retries ? count(step.retries) : "–"),
    isRunning ? [
      el("td", { class: "right" }, step.in_flight ? count(step.in_flight) : "–"),
      el("td", { class: "right" }, step.rate ? number(Number(step.rate.toPrecision(2))) : "–"),
      el("td", { class: "right nowrap" }, step.done >= step.total ? "–" : step.eta_s ? `about ${seconds(Math.max(1, Math.round(step.eta_s)))}` : "unknown"),
      ] : null,
    el("td", { class: "dim rest message" }, isRunning ? step.pace || "" : ""))), { class: "plain fit" }),
  isRunning && about.time_left_s ? el("p", { class: "dim" }, `About ${seconds(Math.max(1, Math.round(about.time_left_s)))} left at this pace.`) : null];
}

function inFlight(about, run, give) {
  if (!about.in_flight?.length) return null;
  const stuck = about.in_flight.filter((call) => call.is_stuck).length;
  const shown = about.in_flight.slice(0, Math.max(5, stuck));
  return [el("h2", {}, "Oldest in flight", stuck ? el("span", { class: "bad" }, ` ${count(stuck)} far beyond the usual`) : null),
    table("In flight", ["item", "step", ["attempt", "right"], ["for", "right"], ["p99", "right"], ["", "rest"]], shown.map((call) =>
      el("tr", { class: call.is_stuck ? "stuck" : "" },
        el("th", { scope: "row" }, el("a", { href: to("item", { run, id: call.id, trial: call.trial || null }) }, call.id, about.trials > 1 ? ` trial ${call.trial}` : "")),
        el("td", {}, call.step), el("td", { class: "right" }, count(call.attempt)),
        el("td", { class: "right nowrap" }, seconds(call.age_s)),
        el("td", { class: "dim right nowrap" }, call.p99_s ? seconds(call.p99_s) : "–"), el("td", { class: "rest" }, about.can_order ? ["retry", "skip"].map((order) =>
          el("button", { type: "button", class: "quiet", onclick: () => give(order, call.id) }, order)) : null))), { class: "plain fit" })];
}

function failures(about, run) {
  if (!about.failures?.length) return null;
  const first = about.failures[0].of_first;
  return [el("h2", {}, "Failures ", el("a", { href: to("items", { run, failed: 1 }) }, "all failed items")),
    first ? el("p", { class: "dim" }, `Only the first ${count(first)} failed items are grouped.`) : null,
    table("Failures", [["", "right"], "step", "class", "message", "items"], about.failures.map((group) => el("tr", { "data-name": `${group.step} ${group.class} ${group.message}` },
      el("td", { class: "right bad" }, count(group.count)),
      el("td", {}, group.step), el("td", { class: "nowrap" }, String(group.class).replace("_", " ")),
      el("th", { scope: "row", class: "message" }, `${group.type}: ${group.message}`, group.traceback ? el("details", { "data-name": "traceback" },
        el("summary", { class: "small dim" }, "traceback of the first"), longText(group.traceback)) : null),
      el("td", {}, group.ids.map((id, at) => [at ? ", " : "", el("a", { class: "nowrap", href: to("item", { run, id, trial: group.trials[at] || null }) },
        id, about.trials > 1 ? ` trial ${group.trials[at]}` : "")])))))];
}

function used(about) {
  if (!about.used?.length) return null;
  const has = (name) => about.used.some((step) => step[name]);
  const titles = ["step", ...(has("cost") ? [["cost", "right"]] : []), ...(has("tokens") ? [["tokens", "right"]] : []),
    ...(has("seconds") ? [["median", "right"], ["p90", "right"], ["p99", "right"]] : []), ["", "rest"]];
  return [el("h2", {}, "Time and money"), table("Time and money", titles, about.used.map((step) => el("tr", { "data-name": step.step },
    el("th", { scope: "row" }, step.step),
    has("cost") ? el("td", { class: "right" }, money(step.cost)) : null,
    has("tokens") ? el("td", { class: "right" }, step.tokens ? count(step.tokens) : "–") : null,
    has("seconds") ? ["p50", "p90", "p99"].map((name) => el("td", { class: "right nowrap" }, seconds(step.seconds?.[name]))) : null, el("td", { class: "rest" }))), { class: "plain fit" })];
}
