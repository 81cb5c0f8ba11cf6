// Draws a mean with its interval as a small bar, to the scale of the score's range.

import { el } from "./dom.js";
import { number, range, signed } from "./format.js";

const HEIGHT = 14;

/**
 * Return the bar: the interval, and a mark for the mean; paler while the run goes on. Null: without
 * a range and an interval, no place is right.
 */
export function intervalBar(score, { width = 120 } = {}) {
  const [from, to] = score.range || span(score);
  if (from === to) return null;
  const at = (value) => Math.max(1, Math.min(width - 1, ((value - from) / (to - from || 1)) * width));
  const low = at(score.low ?? score.mean);
  const high = at(score.high ?? score.mean);
  const classes = `interval${score.interim ? " interim" : ""}${score.bounded ? " bounded" : ""}`;
  return el("svg", { class: classes, width, height: HEIGHT, role: "img", viewBox: `0 0 ${width} ${HEIGHT}`, "aria-label": score.words },
    el("title", {}, `${score.name}: ${score.words}, on a scale from ${number(from)} to ${number(to)}`),
    el("rect", { class: "axis", x: 0, y: HEIGHT / 2 - 1, width, height: 2, rx: 1 }),
    el("rect", { class: "band", x: low, y: 3, width: Math.max(2, high - low), height: HEIGHT - 6, rx: 2 }),
    el("rect", { class: "mean", x: at(score.mean) - 1, y: 1, width: 2, height: HEIGHT - 2 }));
}

function span(score) {
  const low = Math.min(score.low ?? score.mean, score.mean);
  const high = Math.max(score.high ?? score.mean, score.mean);
  return low >= 0 && high <= 1 ? [0, 1] : [low - (high - low) / 4, high + (high - low) / 4];
}

const DIFFERENCE = 180;
const MARGIN = 16;

/** Return the end of a scale around zero on which all these differences fit: a round number. */
export function scaleOf(scores) {
  const most = Math.max(...scores.flatMap(({ low, high, delta }) => [low, high, delta].map((value) => Math.abs(value ?? 0))), 1e-9);
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 4, 10].map((step) => step * power).find((end) => end >= most * (1 - 1e-9));
}

function onScale(value, most) { return ((value / most + 1) / 2) * (DIFFERENCE - 2 * MARGIN) + MARGIN; }

/** Return the axis of such a scale, with its ticks. */
export function differenceAxis(most) {
  const ticks = [-1, -0.5, 0, 0.5, 1].map((share) => share * most);
  return el("svg", { class: "interval", width: DIFFERENCE, height: 20, viewBox: `0 0 ${DIFFERENCE} 20`, role: "img", "aria-label": `scale from ${signed(-most)} to ${signed(most)}` },
    el("rect", { class: "axis", x: MARGIN, y: 0, width: DIFFERENCE - 2 * MARGIN, height: 1 }),
    ticks.map((tick) => [el("rect", { class: "zero", x: onScale(tick, most) - 0.5, y: 0, width: 1, height: 5 }),
      el("text", { class: "tick", x: onScale(tick, most), y: 16 }, tick ? `${tick > 0 ? "+" : "−"}${number(Math.abs(tick))}` : "0")]));
}

/** Return a difference with its interval on a scale around zero that ends at `most`. */
export function differenceBar(score, most) {
  const at = (value) => onScale(Math.max(-most, Math.min(most, value)), most);
  const better = { better: "good", worse: "bad" }[score.verdict] ?? "";
  const words = `${signed(score.delta)} (${range(score.low, score.high)}), on a scale from ${signed(-most)} to ${signed(most)}`;
  return el("svg", { class: `interval ${better}`, width: DIFFERENCE, height: HEIGHT, role: "img", viewBox: `0 0 ${DIFFERENCE} ${HEIGHT}`, "aria-label": words },
    el("rect", { class: "axis", x: MARGIN, y: HEIGHT / 2 - 1, width: DIFFERENCE - 2 * MARGIN, height: 2, rx: 1 }),
    el("rect", { class: "zero", x: DIFFERENCE / 2 - 0.5, y: 0, width: 1, height: HEIGHT }),
    el("rect", { class: "band", x: at(score.low), y: 3, width: Math.max(2, at(score.high) - at(score.low)), height: HEIGHT - 6, rx: 2 }),
    el("rect", { class: "mean", x: at(score.delta) - 1, y: 1, width: 2, height: HEIGHT - 2 }));
}
