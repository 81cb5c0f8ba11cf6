// Which answers changed between the two runs of a report? As run/comparing/changes.py and
// change_answers.py do, for the answers whose numbers are in the file.

import { TextSearch } from "./file_search.js";
import { SourceError } from "./source.js";

const SEARCH_MS = 100;

export class FileChanges {
  /** `compared` is the data of the comparison; `base` and `next` are runs of the file. */
  constructor(data, compared, base, next) {
    Object.assign(this, { data, sides: [base, next], trials: data.trials });
    this.rows = [data.base, data.new].map((steps) => { let row = 0; return steps.map((step) => { row += step; return row; }); });
    this.length = this.rows[0].length * this.trials;
    this.scores = data.scores.map(([name, digits]) => this.score(name, digits, compared.scores[name]));
    this.changed = this.cells(this.scores, null).length;
    this.latest = { name: null };
    this.search = { text: null };
  }

  /** Where a cell is in the table of one side. */
  position(side, cell) {
    const at = Math.floor(cell / this.trials);
    return this.rows[side][at] * this.sides[side].table.trials + (cell % this.trials);
  }

  where(cell) { return this.sides[0].table.where(this.position(0, cell)); }

  valueOf(name, side, cell) {
    const { value, label } = this.sides[side].table.score(name, this.position(side, cell));
    return value ?? label;
  }

  score(name, digits, about) {
    const directions = Uint8Array.from(digits, Number);
    const gains = new Float32Array(this.length);
    const is = (cell, ...words) => words.includes(this.data.directions[directions[cell]]);
    let widest = 0;
    for (let cell = 0; cell < this.length; cell += 1) {
      if (!is(cell, "better", "worse")) continue;
      gains[cell] = (this.valueOf(name, 1, cell) - this.valueOf(name, 0, cell)) * (about?.higher_is_better === false ? -1 : 1);
      widest = Math.max(widest, Math.abs(gains[cell]));
    }
    const width = (about?.range ? about.range[1] - about.range[0] : widest) || 1;
    for (let cell = 0; cell < this.length; cell += 1) {
      if (is(cell, "failed")) gains[cell] = -1;
      else if (is(cell, "recovered")) gains[cell] = 1;
      else gains[cell] /= width;
    }
    return { name, directions, gains };
  }

  /** The cells in which a score went in a direction; null: in which something changed. */
  cells(scores, wanted) {
    const found = [];
    for (let cell = 0; cell < this.length; cell += 1) {
      if (scores.some(({ directions }) => (wanted === null ? directions[cell] > 1 : directions[cell] === wanted))) found.push(cell);
    }
    return found;
  }

  chosen(query) {
    const [score, direction, sort] = ["score", "direction", "sort"].map((name) => query.get(name) || "");
    const name = JSON.stringify([score, direction, sort]);
    if (this.latest.name === name) return this.latest.cells;
    const scores = this.scores.filter((one) => !score || one.name === score);
    const wanted = direction ? this.data.directions.indexOf(direction) : null;
    if (!scores.length) throw new SourceError(`no score is called '${score}'`);
    if (wanted !== null && wanted < 1) throw new SourceError(`direction=${direction}: must be one of ${this.data.directions.slice(1).join(", ")}`);
    const cells = this.cells(scores, wanted);
    this.latest = { name, cells: this.ordered(cells, sort, (cell) => greatest(scores, wanted, cell)) };
    return this.latest.cells;
  }

  ordered(cells, sort, gainOf) {
    if (sort === "position" || sort === "-position") return sort === "position" ? cells : cells.reverse();
    const gains = new Map(cells.map((cell) => [cell, gainOf(cell)]));
    if (sort === "change" || sort === "-change") return cells.sort((a, b) => (sort === "change" ? 1 : -1) * (gains.get(a) - gains.get(b)));
    if (sort) throw new SourceError(`sort=${sort}: must be change, position, or one with a -`);
    const side = (holds) => cells.filter((cell) => holds(gains.get(cell))).sort((a, b) => Math.abs(gains.get(b)) - Math.abs(gains.get(a)));
    const [up, down] = [side((gain) => gain > 0), side((gain) => gain < 0)];
    const turns = [];
    for (let at = 0; at < Math.max(up.length, down.length); at += 1) turns.push(...up.slice(at, at + 1), ...down.slice(at, at + 1));
    return [...turns, ...side((gain) => gain === 0)];
  }

  /** The cells that match a query, how many texts are left to search, and how many are not in the file. */
  async found(query) {
    const cells = this.chosen(query);
    const text = query.get("text") || "";
    if (!text) return { cells, left: 0, without: 0 };
    if (this.search.text !== text) {
      const wanted = new URLSearchParams({ text });
      this.search = { text, of: this.sides.map((run) => TextSearch.of(wanted, run.table, run.rows)) };
    }
    const { of } = this.search;
    let left = 0;
    for (const [side, search] of of.entries()) left += await search.goOn(this.sides[side], SEARCH_MS);
    const any = (cell, holds) => this.sides.some((run, side) => holds(run, this.position(side, cell), of[side]));
    return {
      cells: cells.filter((cell) => any(cell, (_, position, search) => search.found[position])), left,
      without: cells.filter((cell) => !any(cell, (run, position) => run.rows.has(position))).length,
    };
  }

  async head(query) {
    const { cells, left, without } = await this.found(query);
    const { total, trials, changed, totals } = this.data;
    return [cells, {
      total, trials, changed, scores: Object.fromEntries(totals), matching: cells.length, left_to_search: left,
      not_searched: without, not_here: changed - this.changed,
    }];
  }

  async answer(query, from, many) {
    const [cells, head] = await this.head(query);
    return { ...head, from, rows: cells.slice(from, from + many).map((cell) => this.row(cell, query.get("direction"))) };
  }

  async near(query, id, trial) {
    const [cells, head] = await this.head(query);
    const row = this.sides[0].table.position(id, 0);
    const at = cells.findIndex((cell) => this.position(0, cell) === row + trial && cell % this.trials === trial);
    const beside = (other) => (at >= 0 && cells[other] !== undefined ? this.where(cells[other]) : null);
    return { ...head, at: at < 0 ? null : at, before: beside(at - 1), after: beside(at + 1) };
  }

  row(cell, direction) {
    const rows = this.sides.map((run, side) => run.rows.get(this.position(side, cell)) || {});
    const line = ({ output = null, error = null }) => ({ output, error });
    const ranked = [...this.scores].sort((a, b) => Math.abs(b.gains[cell]) - Math.abs(a.gains[cell]));
    const scores = ranked.map(({ name, directions }) => ({ name, direction: this.data.directions[directions[cell]] }))
      .filter((one) => !["none", "same"].includes(one.direction) || (direction === "same" && one.direction === "same"))
      .map((one) => ({ ...one, base: this.valueOf(one.name, 0, cell), new: this.valueOf(one.name, 1, cell) }));
    return { ...this.where(cell), input: rows[1].input ?? rows[0].input ?? null, base: line(rows[0]), new: line(rows[1]), scores };
  }
}

function greatest(scores, wanted, cell) {
  let found = 0;
  for (const { directions, gains } of scores) {
    if ((wanted === null || directions[cell] === wanted) && Math.abs(gains[cell]) > Math.abs(found)) found = gains[cell];
  }
  return found;
}
