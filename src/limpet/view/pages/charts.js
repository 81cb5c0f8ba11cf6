// A line over time, drawn by uPlot (uplot/, loaded before the modules) in the page's own colours.

import { el, fill } from "./dom.js";

const HEIGHT = 120;

/** Return a chart: `set(seconds since epoch, values)` draws it, `close()` ends it. */
export function timeChart(title, unit) {
  const frame = el("div", { class: "frame" });
  const element = el("figure", {}, el("figcaption", {}, title, el("span", { class: "dim" }, ` ${unit}`)), frame);
  let plot = null;
  const width = () => Math.max(200, frame.clientWidth || 320);
  const resized = new ResizeObserver(() => plot?.setSize({ width: width(), height: HEIGHT }));
  resized.observe(frame);

  function options() {
    const style = getComputedStyle(element);
    const colour = (name) => style.getPropertyValue(name).trim() || "gray";
    const axis = { stroke: colour("--dim"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false } };
    return {
      width: width(), height: HEIGHT, legend: { show: false }, cursor: { y: false },
      axes: [{ ...axis, space: 70 }, { ...axis, size: 44, space: 28 }],
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      series: [{}, { stroke: colour("--accent"), width: 1.5, fill: colour("--accent-soft"), points: { show: false } }],
    };
  }

  return {
    element,
    set(times, values) {
      element.setAttribute("aria-label", `${title}: last ${values.at(-1) ?? "not known"} ${unit}`);
      if (plot) plot.setData([times, values]);
      else plot = new window.uPlot(options(), [times, values], fill(frame));
    },
    close() { resized.disconnect(); plot?.destroy(); },
  };
}
