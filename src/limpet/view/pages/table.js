// A table of any length: only visible rows are in the page.

import { el, update } from "./dom.js";

const SPARE = 12;
const CHUNK = 100;
const REST_MS = 100;

/**
 * A table that loads rows when they come into view.
 *
 * @param columns `[{title, align, sort, ch, grows}]`; `sort`: the name to sort by, if it can be;
 *   `ch`: how wide it is, in letters, or how wide at least if it `grows`.
 * @param rows `async (from, count) => {matching, rows}`.
 * @param cells `(row) => [children of each cell]`.
 * @param open called with a row when it is chosen.
 * @param find `async (row) => position`: where a chosen row is now; null: no longer in the table.
 */
export class VirtualTable {
  constructor({ columns, rows, cells, open, find, sorted, sort, label }) {
    Object.assign(this, { columns, ask: rows, cells, open, find, sort });
    this.height = 28;
    this.total = 0;
    this.chunks = new Map();
    // The chosen row, and its position: when rows move, it moves with them.
    this.chosen = null;
    this.current = -1;
    this.version = 0;
    this.top = 0;
    this.painted = 0;
    this.body = el("tbody");
    this.table = el("table", { "aria-label": label, "aria-rowcount": -1 },
      el("colgroup", {}, columns.map(widthOf)),
      el("thead", {}, el("tr", { "aria-rowindex": 1 }, columns.map((column) => this.head(column, sorted)))),
      this.body);
    this.table.style.minWidth = `${columns.reduce((sum, { ch }) => sum + ch, 0)}ch`;
    this.element = el("div", {
      class: "scroll", tabindex: "0", role: "region", "aria-label": label,
      onscroll: () => this.scrolled(), onkeydown: (event) => this.key(event), onpointerover: nameCut,
    }, this.table);
    this.resized = new ResizeObserver(() => this.draw());
    this.resized.observe(this.element);
  }

  close() {
    this.isClosed = true;
    clearTimeout(this.rest);
    this.resized.disconnect();
  }

  head(column, sorted) {
    const is = sorted === column.sort ? "ascending" : sorted === `-${column.sort}` ? "descending" : null;
    const attributes = { scope: "col", class: column.align || "", "aria-sort": is };
    if (!column.sort) return el("th", attributes, el("div", { class: "one-line" }, column.title));
    const arrow = is === "ascending" ? "↑" : is === "descending" ? "↓" : "";
    return el("th", attributes, el("button", {
      class: "sort",
      onclick: () => this.sort(is === "ascending" ? `-${column.sort}` : column.sort),
    }, el("span", { class: "one-line" }, column.title), arrow));
  }

  /** Load the visible rows again; the old ones stay until the new ones arrive. */
  async refresh() {
    this.version += 1;
    if (this.chunks.size) this.stale = this.chunks;
    this.chunks = new Map();
    this.fault = null;
    await this.draw();
    if (this.fault) throw this.fault;
    await this.follow();
  }

  /** Find the chosen row again after rows may have moved. */
  async follow() {
    const { chosen, current, version } = this;
    if (!chosen || isSameRow(this.row(current), chosen)) return;
    let at = null;
    for (const [number, rows] of this.chunks) {
      const index = Array.isArray(rows) ? rows.findIndex((row) => isSameRow(row, chosen)) : -1;
      if (index >= 0) at = number * CHUNK + index;
    }
    if (at === null) at = await this.find?.(chosen);
    if (chosen !== this.chosen || version !== this.version) return;
    if (at !== null && at !== undefined) this.current = at;
    this.paint();
  }

  get first() { return Math.max(0, Math.floor(this.element.scrollTop / this.height) - SPARE); }

  get many() { return Math.ceil((this.element.clientHeight || 600) / this.height) + 2 * SPARE; }

  /** Show what is in view, and load what is missing there: one request at a time. */
  async draw() {
    if (this.total) this.paint();
    this.loading ||= this.load().finally(() => { this.loading = null; });
    await this.loading;
  }

  /** A dragged scrollbar passes rows that nobody reads: only those where it rests are loaded. */
  scrolled() {
    const { scrollTop, clientHeight } = this.element;
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.rested(scrollTop), REST_MS);
    // Within one view of where it rested, rows come at once.
    this.isDragged ||= Math.abs(scrollTop - this.top) > clientHeight;
    // The spare rows are enough for a few steps: drawing each would cost frames.
    const isDrawn = Math.abs(this.first - this.painted) < SPARE / 2;
    if (this.isDragged) { if (!isDrawn) this.paint(); }
    else if (!isDrawn || this.missing() !== null) this.draw();
  }

  rested(at) {
    // On a busy machine, the event comes later than the movement.
    if (this.element.scrollTop !== at) return this.scrolled();
    this.top = at;
    this.isDragged = false;
    return void this.draw();
  }

  async load() {
    for (let at = this.missing(); at !== null; at = this.missing()) {
      const { version } = this;
      try {
        const found = await this.ask(at * CHUNK, CHUNK);
        if (version !== this.version) continue;
        this.chunks.set(at, found.rows);
        this.total = found.matching;
      } catch (error) {
        this.fault = error;
        return;
      }
      this.paint();
    }
  }

  /** The first chunk in view that is not there; null: none. */
  missing() {
    if (this.isClosed || (this.isDragged && this.total)) return null;
    const last = Math.floor((this.first + this.many) / CHUNK);
    for (let at = Math.floor(this.first / CHUNK); at <= last; at += 1) {
      const isBeyond = this.chunks.size && at * CHUNK >= Math.max(this.total, 1);
      if (!this.chunks.has(at) && !isBeyond) return at;
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
    this.painted = this.first;
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
    if (row && at === this.current) this.chosen ||= row;
    const isChosen = this.chosen ? isSameRow(row, this.chosen) : at === this.current;
    return el("tr", {
      "data-name": "row", "aria-rowindex": at + 2, "aria-selected": isChosen ? "true" : null,
      class: isChosen ? "current" : "", onclick: () => { if (row) this.open(row); },
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
      if (this.chosen) this.open(this.chosen);
    }
  }

  /** Choose a row so many steps from the chosen one, wherever that is now. */
  move(step) {
    const go = () => this.moveTo(this.current < 0 && step > 0 && step !== Infinity ? 0 : this.current + step);
    this.moving = Promise.resolve(this.moving).then(() => this.follow()).then(go, go);
  }

  /** Take over the scroll position and the chosen row of another table. */
  restore(other) {
    this.current = other.current;
    this.chosen = other.chosen;
    this.element.scrollTop = other.element.scrollTop;
    this.top = this.element.scrollTop;
    this.draw();
  }

  /** The first row of the chunk in view. */
  get chunk() { return Math.floor(this.first / CHUNK) * CHUNK; }

  /** Choose the row at a position; `row` says which one that is, if it is known. */
  moveTo(target, row = null) {
    this.current = Math.max(0, Math.min(this.total - 1, target));
    this.chosen = row || this.row(this.current) || null;
    const top = this.current * this.height;
    const view = this.element;
    const head = this.table.tHead.getBoundingClientRect().height;
    if (top < view.scrollTop) view.scrollTop = top;
    else if (top + this.height > view.scrollTop + view.clientHeight - head) {
      view.scrollTop = top + this.height - view.clientHeight + head;
    }
    this.top = view.scrollTop;
    this.draw();
  }
}

function isSameRow(row, other) { return Boolean(row) && row.id === other.id && row.trial === other.trial; }

/** Give a cell that is cut its whole text as a title. */
function nameCut(event) {
  const cell = event.target.closest(".one-line");
  const parts = cell ? [cell, ...cell.children] : [];
  if (parts.some((part) => part.scrollWidth > part.clientWidth)) cell.title = cell.textContent;
}

function widthOf({ ch, grows }) {
  const column = el("col");
  if (!grows) column.style.width = `${ch}ch`;
  return column;
}
