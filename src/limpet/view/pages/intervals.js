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

/** Return a difference with its interval, drawn around zero. */
export function differenceBar(score, { width = 160 } = {}) {
  const most = Math.max(Math.abs(score.low ?? 0), Math.abs(score.high ?? 0), Math.abs(score.delta), 1e-9);
  const at = (value) => ((value / most + 1) / 2) * (width - 8) + 4;
  const side = score.low > 0 ? "good" : score.high < 0 ? "bad" : "";
  const better = score.higher_is_better === false ? { good: "bad", bad: "good", "": "" }[side] : side;
  const words = `${signed(score.delta)} (${range(score.low, score.high)})`;
  return el("svg", { class: `interval ${better}`, width, height: HEIGHT, role: "img", viewBox: `0 0 ${width} ${HEIGHT}`, "aria-label": words },
    el("rect", { class: "axis", x: 0, y: HEIGHT / 2 - 1, width, height: 2, rx: 1 }),
    el("rect", { class: "zero", x: width / 2 - 0.5, y: 0, width: 1, height: HEIGHT }),
    el("rect", { class: "band", x: at(score.low), y: 3, width: Math.max(2, at(score.high) - at(score.low)), height: HEIGHT - 6, rx: 2 }),
    el("rect", { class: "mean", x: at(score.delta) - 1, y: 1, width: 2, height: HEIGHT - 2 }));
}
