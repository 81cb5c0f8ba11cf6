// A table of any length: only visible rows are in the page.

import { el, update } from "./dom.js";

const SPARE = 12;
const CHUNK = 100;

/**
 * A table that loads rows when they come into view.
 *
 * @param columns `[{title, align, sort, ch, grows}]`; `sort`: the name to sort by, if it can be;
 *   `ch`: how wide it is, in letters, or how wide at least if it `grows`.
 * @param rows `async (from, count) => {matching, rows}`.
 * @param cells `(row) => [children of each cell]`.
 * @param open called with a row when it is chosen.
 */
export class VirtualTable {
  constructor({ columns, rows, cells, open, sorted, sort, label }) {
    Object.assign(this, { columns, ask: rows, cells, open, sort });
    this.height = 28;
    this.total = 0;
    this.chunks = new Map();
    this.current = -1;
    this.version = 0;
    this.body = el("tbody");
    this.table = el("table", { "aria-label": label, "aria-rowcount": -1 },
      el("colgroup", {}, columns.map(widthOf)),
      el("thead", {}, el("tr", { "aria-rowindex": 1 }, columns.map((column) => this.head(column, sorted)))),
      this.body);
    this.table.style.minWidth = `${columns.reduce((sum, { ch }) => sum + ch, 0)}ch`;
    this.element = el("div", {
      class: "scroll", tabindex: "0", role: "region", "aria-label": label,
      onscroll: () => this.draw(), onkeydown: (event) => this.key(event),
    }, this.table);
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.element);
  }

  close() { this.resized.disconnect(); }

  head(column, sorted) {
    const is = sorted === column.sort ? "ascending" : sorted === `-${column.sort}` ? "descending" : null;
    const attributes = { scope: "col", class: column.align || "", "aria-sort": is };
    if (!column.sort) return el("th", attributes, column.title);
    const arrow = is === "ascending" ? "↑" : is === "descending" ? "↓" : "";
    return el("th", attributes, el("button", {
      class: "sort",
      onclick: () => this.sort(is === "ascending" ? `-${column.sort}` : column.sort),
    }, el("span", { class: "one-line" }, column.title), arrow));
  }

  /** Load the visible rows again; the old ones stay until the new ones arrive. */
  async refresh() {
    this.version += 1;
    this.stale = this.chunks;
    this.chunks = new Map();
    await this.draw();
  }

  get first() { return Math.max(0, Math.floor(this.element.scrollTop / this.height) - SPARE); }

  get many() { return Math.ceil((this.element.clientHeight || 600) / this.height) + 2 * SPARE; }

  async draw() {
    const version = this.version;
    const first = this.first;
    const last = first + this.many;
    const wanted = [];
    for (let at = Math.floor(first / CHUNK); at <= Math.floor(last / CHUNK); at += 1) wanted.push(at);
    if (this.total) this.paint();
    await Promise.all(wanted.map((at) => this.load(at, version)));
    if (version === this.version) this.paint();
  }

  async load(at, version) {
    if (this.chunks.has(at)) return this.chunks.get(at);
    if (this.chunks.size && at * CHUNK >= Math.max(this.total, 1)) return null;
    const answer = this.ask(at * CHUNK, CHUNK);
    this.chunks.set(at, answer);
    try {
      const found = await answer;
      if (version !== this.version) return null;
      this.chunks.set(at, found.rows);
      this.total = found.matching;
      this.loaded?.(found);
    } catch (error) {
      this.chunks.delete(at);
      this.failed?.(error);
    }
    return null;
  }

  row(at) {
    const find = (chunks) => {
      const rows = chunks?.get(Math.floor(at / CHUNK));
      return Array.isArray(rows) ? rows[at % CHUNK] : undefined;
    };
    return find(this.chunks) || find(this.stale);
  }

  paint() {
    const first = Math.min(this.first, Math.max(0, this.total - 1));
    const last = Math.min(this.total, first + this.many);
    const rows = [];
    for (let at = first; at < last; at += 1) rows.push(this.line(at));
    const space = (name) => el("tr", { class: "space", "aria-hidden": true, "data-name": name }, el("td", { colspan: this.columns.length }));
    update(this.body, space("above"), rows, space("below"));
    this.body.firstChild.firstChild.style.height = `${first * this.height}px`;
    this.body.lastChild.firstChild.style.height = `${Math.max(0, this.total - last) * this.height}px`;
    this.table.setAttribute("aria-rowcount", this.total + 1);
    const measured = this.body.children[1]?.getBoundingClientRect().height;
    if (last > first && measured && Math.abs(measured - this.height) > 0.5) {
      this.height = measured;
      this.paint();
    }
  }

  line(at) {
    const row = this.row(at);
    const cells = row ? this.cells(row) : this.columns.map(() => "");
    return el("tr", {
      "data-name": "row", "aria-rowindex": at + 2, "aria-selected": at === this.current ? "true" : null,
      class: at === this.current ? "current" : "", onclick: () => { this.current = at; if (row) this.open(row); },
    }, cells.map((cell, number) => el(number === 0 ? "th" : "td", {
      class: this.columns[number].align || "", scope: number === 0 ? "row" : null,
    }, el("div", { class: "one-line" }, cell))));
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: 20, PageUp: -20, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      event.preventDefault();
      this.move(steps[event.key]);
    } else if (event.key === "Enter" && event.target.tagName !== "BUTTON") {
      const row = this.row(this.current);
      if (row) this.open(row);
    }
  }

  move(step) {
    this.moveTo(this.current < 0 && step > 0 && step !== Infinity ? 0 : this.current + step);
  }

  /** Take over the scroll position and the chosen row of another table. */
  restore(other) {
    this.current = other.current;
    this.element.scrollTop = other.element.scrollTop;
    this.draw();
  }

  /** The first row of the chunk in view. */
  get chunk() { return Math.floor(this.first / CHUNK) * CHUNK; }

  moveTo(target) {
    this.current = Math.max(0, Math.min(this.total - 1, target));
    const top = this.current * this.height;
    const view = this.element;
    const head = this.table.tHead.getBoundingClientRect().height;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (top + this.height > view.scrollTop + view.clientHeight - head) {
      view.scrollTop = top + this.height - view.clientHeight + head;
    }
    this.draw();
  }
}

function widthOf({ ch, grows }) {
  const column = el("col");
  if (!grows) column.style.width = `${ch}ch`;
  return column;
}
