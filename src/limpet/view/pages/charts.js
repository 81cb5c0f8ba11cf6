// Lines over time, drawn by uPlot (uplot/, loaded before the modules) in the page's own colours.

import { el, fill } from "./dom.js";

const HEIGHT = 130;
const WANTED = [
  ["Throughput", "cells per second", "per_s"],
  ["In flight", "calls", "in_flight"],
  ["Latency", "seconds, median", "p50_s"],
  ["Refused", "calls per second", "refused"],
];

/** Return the charts of a run: `set(timeline)` draws them, `close()` ends them. */
export function timeCharts(root) {
  const charts = WANTED.map(([title, unit, name]) => ({ name, chart: timeChart(title, unit) }));
  fill(root, el("h2", {}, "Over time"), el("div", { class: "charts-grid" }, charts.map(({ chart }) => chart.element)));
  return {
    set(timeline) {
      root.hidden = !timeline || timeline.t.length < 2;
      if (root.hidden) return;
      for (const { name, chart } of charts) {
        chart.element.hidden = name === "refused" && !timeline.refused.some((value) => value > 0);
        chart.set(timeline.t, timeline[name]);
      }
    },
    close() { for (const { chart } of charts) chart.close(); },
  };
}

/** Return times of day; with seconds if the ticks are close. */
function clockTimes(_, times) {
  const two = (part) => String(part).padStart(2, "0");
  const close = times.length > 1 && times[1] - times[0] < 60;
  return times.map((time) => {
    const at = new Date(time * 1000);
    return `${two(at.getHours())}:${two(at.getMinutes())}${close ? `:${two(at.getSeconds())}` : ""}`;
  });
}

function timeChart(title, unit) {
  const frame = el("div", { class: "frame" });
  const element = el("figure", { role: "img" }, el("figcaption", {}, title, el("span", { class: "dim" }, `, ${unit}`)), frame);
  let plot = null;
  let drawn = "";
  let scheme = "";
  const width = () => Math.max(200, frame.clientWidth || 320);
  const resized = new ResizeObserver(() => plot?.setSize({ width: width(), height: HEIGHT }));
  resized.observe(frame);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function options() {
    const probe = el("span", { class: "colours" });
    element.append(probe);
    const style = getComputedStyle(probe);
    const [line, soft, grid, ink] = [style.color, style.backgroundColor, style.borderTopColor, style.outlineColor];
    probe.remove();
    const axis = { stroke: ink, grid: { stroke: grid, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    return {
      width: width(), height: HEIGHT, legend: { show: false }, cursor: { y: false, points: { show: false } },
      axes: [{ ...axis, space: 90, size: 24, values: clockTimes }, { ...axis, size: 42, space: 26 }],
      scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      series: [{}, { stroke: line, width: 1.5, fill: soft, points: { show: false }, spanGaps: true }],
    };
  }

  return {
    element,
    set(times, values) {
      const state = JSON.stringify([times, values]);
      if (state === drawn && scheme === dark.matches) return;
      element.setAttribute("aria-label", `${title}: last ${values.at(-1) ?? "unknown"} ${unit}`);
      if (plot && scheme === dark.matches) {
        plot.setData([times, values]);
      } else {
        plot?.destroy();
        plot = new window.uPlot(options(), [times, values], fill(frame));
      }
      drawn = state;
      scheme = dark.matches;
    },
    close() { resized.disconnect(); plot?.destroy(); },
  };
}
