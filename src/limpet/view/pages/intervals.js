// Draws a mean with its interval as a small bar, to the scale of the score's range.

import { el } from "./dom.js";
import { number, range } from "./format.js";

const WIDTH = 120;
const HEIGHT = 14;

/** Return a mean with its interval as words: `0.842 (0.79–0.88)`. */
export function intervalWords(score) {
  if (score.mean === null || score.mean === undefined) return "–";
  const known = score.low !== null && score.low !== undefined;
  return known ? `${number(score.mean)} (${range(score.low, score.high)})` : number(score.mean);
}

/** Return the bar: the interval, a mark for the mean; hatched while the run goes on. */
export function intervalBar(score, { width = WIDTH } = {}) {
  const [from, to] = score.range || span(score);
  const place = (value) => Math.max(0, Math.min(width, ((value - from) / (to - from || 1)) * width));
  const low = place(score.low ?? score.mean);
  const high = place(score.high ?? score.mean);
  return el("svg", {
    class: `interval${score.interim ? " interim" : ""}`, width, height: HEIGHT, role: "img",
    viewBox: `0 0 ${width} ${HEIGHT}`, "aria-label": intervalWords(score),
  },
  el("title", {}, `${score.name}: ${intervalWords(score)}`),
  el("line", { class: "axis", x1: 0, x2: width, y1: HEIGHT / 2, y2: HEIGHT / 2 }),
  el("rect", { class: "band", x: low, y: 3, width: Math.max(1, high - low), height: HEIGHT - 6, rx: 2 }),
  el("line", { class: "mean", x1: place(score.mean), x2: place(score.mean), y1: 1, y2: HEIGHT - 1 }));
}

function span(score) {
  const low = Math.min(score.low ?? score.mean, score.mean);
  const high = Math.max(score.high ?? score.mean, score.mean);
  return low >= 0 && high <= 1 ? [0, 1] : [low - (high - low) / 4, high + (high - low) / 4];
}

/** Return a difference with its interval, drawn around zero. */
export function differenceBar(score, { width = 160 } = {}) {
  const most = Math.max(Math.abs(score.low ?? 0), Math.abs(score.high ?? 0), Math.abs(score.delta), 1e-9);
  const place = (value) => ((value / most + 1) / 2) * (width - 8) + 4;
  const side = score.low > 0 ? "good" : score.high < 0 ? "bad" : "";
  const better = score.higher_is_better === false ? { good: "bad", bad: "good", "": "" }[side] : side;
  return el("svg", { class: `interval ${better}`, width, height: HEIGHT, role: "img", viewBox: `0 0 ${width} ${HEIGHT}`, "aria-label": `${number(score.delta)} (${range(score.low, score.high)})` },
    el("line", { class: "axis", x1: width / 2, x2: width / 2, y1: 0, y2: HEIGHT }),
    el("rect", { class: "band", x: place(score.low), y: 3, width: Math.max(1, place(score.high) - place(score.low)), height: HEIGHT - 6, rx: 2 }),
    el("line", { class: "mean", x1: place(score.delta), x2: place(score.delta), y1: 1, y2: HEIGHT - 1 }));
}
