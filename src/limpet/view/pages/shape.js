// How the answers of a run are spread over a score, a time or a cost: bars that lead to their items.

import { to } from "./address.js";
import { el } from "./dom.js";
import { count, number, plural, seconds } from "./format.js";

const FEW = 8;
const MARKS = ["p50", "p90", "p99"];

/** Return the bars of a score with an axis, and what is in none of them; null: it has no values. */
export function scoreShape(shape, run) {
  if (!shape?.n) return null;
  const beside = [plural(shape.n, "answer"), shape.failed ? `${count(shape.failed)} failed` : null,
    shape.missing ? `${count(shape.missing)} without a score` : null,
    shape.hidden ? `${count(shape.hidden)} hidden until you label them` : null].filter(Boolean).join(", ");
  return el("div", { class: "shape", "data-name": "shape" }, shape.labels ? labelBars(shape, run) : valueBars(shape, run, number, shape.name),
    el("div", { class: "small dim" }, `Bars: ${beside}`));
}

/** Return how long the answers took and what they cost, each as a card. */
export function amountShapes(shapes, run) {
  if (!shapes.length) return null;
  return el("div", { class: "cards" }, shapes.map((shape) => {
    const words = shape.name === "cost" ? (value) => `$${number(value)}` : duration;
    const title = shape.name === "cost" ? "cost" : "time";
    const marks = MARKS.filter((mark) => shape.quantiles?.[mark] !== undefined);
    return el("div", { class: "amount shape", "data-name": shape.name },
      el("div", { class: "dim" }, `${title} per answer${shape.is_log ? ", logarithmic scale" : ""}`),
      valueBars(shape, run, words, title),
      el("div", { class: "small dim" }, [plural(shape.n, "answer"), ...marks.map((mark) => `${mark} ${words(shape.quantiles[mark])}`)].join(" · ")));
  }));
}

const duration = (value) => (value < 0.0095 ? `${number(Number((value * 1000).toPrecision(3)))} ms` : seconds(value));

/** The bars from left to right: `{words, n, query}`; the ends also have what lies beyond their edge. */
function barsOf({ name, points, edges, counts }, words) {
  if (points) return points.map((value, at) => ({ words: words(value), n: counts[at], query: { least: `${name}:${value}`, most: `${name}:${value}` } }));
  return counts.map((n, at) => ({
    words: `${words(edges[at])} to ${words(edges[at + 1])}`, n,
    query: {
      least: at || counts.length === 1 ? `${name}:${edges[at]}` : null,
      below: at < counts.length - 1 ? `${name}:${edges[at + 1]}` : null,
    },
  }));
}

function valueBars(shape, run, words, title) {
  const bars = barsOf(shape, words);
  const most = Math.max(...shape.counts);
  const first = bars.findIndex(({ n }) => n);
  const ticks = shape.points ? (bars.length <= FEW ? bars.map((bar) => bar.words) : [bars[0].words, bars.at(-1).words])
    : [shape.edges[0], ...(bars.length % 2 ? [] : [shape.edges[bars.length / 2]]), shape.edges.at(-1)].map(words);
  const marks = MARKS.filter((mark) => shape.quantiles?.[mark] !== undefined);
  return [
    el("div", { class: "small dim most", "aria-hidden": "true" }, count(most)),
    el("div", { class: "plot" },
      el("ul", { class: "bars", "aria-label": `${title}: bars, arrow keys move`, onkeydown: move }, bars.map((bar, at) => el("li", {}, bar.n
        ? link(bar, run, at === first, shape.is_link === false, el("svg", { viewBox: "0 0 10 100", preserveAspectRatio: "none", "aria-hidden": "true" }, barAt(bar.n / most))) : null))),
      marks.length ? el("svg", { class: "marks", "aria-hidden": "true" }, marks.map((mark) => {
        const at = `${(100 * placeOf(shape, shape.quantiles[mark])).toFixed(2)}%`;
        return el("line", { x1: at, x2: at, y1: 0, y2: "100%", class: mark });
      })) : null),
    el("div", { class: `ticks small dim${ticks.length === bars.length ? " each" : ""}`, "aria-hidden": "true" }, ticks.map((tick) => el("span", {}, tick))),
  ];
}

const barAt = (share) => { const height = Math.max(3, 100 * share); return el("rect", { x: 0, y: 100 - height, width: 10, height }); };

function link({ words, n, query }, run, isFirst, isOff, ...content) {
  const text = `${words}: ${plural(n, "answer")}`;
  if (isOff) return el("span", { role: "img", "aria-label": text, title: text }, content);
  return el("a", { href: to("items", { run, ...query }), title: text, "aria-label": text, tabindex: isFirst ? 0 : -1 }, content);
}

/** Where a value is on the axis, from 0 to 1. */
function placeOf({ edges, counts, is_log }, value) {
  const at = Math.max(0, Math.min(counts.length - 1, edges.findLastIndex((edge) => edge <= value)));
  const scale = is_log ? (one) => Math.log(Math.max(one, edges[0])) : (one) => one;
  const [low, high] = [scale(edges[at]), scale(edges[at + 1])];
  return (at + Math.max(0, Math.min(1, (scale(value) - low) / (high - low || 1)))) / counts.length;
}

function labelBars(shape, run) {
  const most = shape.labels[0][1];
  return [el("ul", { class: "label-bars", "aria-label": `${shape.name}: labels, arrow keys move`, onkeydown: move }, shape.labels.map(([label, n, isWhole], at) =>
    el("li", { "data-name": label }, link({ words: label, n, query: { label: `${shape.name}:${label}` } }, run, at === 0, !isWhole,
      el("span", { class: "one-line" }, label), el("svg", { viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" }, el("rect", { x: 0, y: 0, width: Math.max(1, (100 * n) / most), height: 10 })),
      el("span", { class: "right" }, count(n)))))),
  shape.more ? el("div", { class: "small dim" }, `${plural(shape.more, "more label")}: ${plural(shape.more_n, "answer")}`) : null];
}

/** Bars are one stop of the Tab key: arrows go from bar to bar. */
function move(event) {
  const step = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[event.key];
  if (!step || event.ctrlKey || event.metaKey || event.altKey) return;
  const links = [...event.currentTarget.querySelectorAll("a")];
  const next = links[links.indexOf(document.activeElement) + step];
  event.preventDefault();
  next?.focus();
}
