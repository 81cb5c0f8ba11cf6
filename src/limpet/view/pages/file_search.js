// Which items of a report contain a text, or have a value in a field? As run/results/filters.py
// does, for the items whose texts are in the file: some chunks in each call, so that none takes long.

import { pairs } from "./file_table.js";

const WORDS = new Map([[null, ["", "null", "none"]], [true, ["true", "yes"]], [false, ["false", "no"]]]);
const NOTHING = Symbol("nothing");

export class TextSearch {
  static isWanted(query) { return Boolean(query.get("text")) || query.has("where") || query.has("disagree"); }

  /** The search of a query; null: none. */
  static of(query, table, rows) { return TextSearch.isWanted(query) ? new TextSearch(query, table, rows) : null; }

  constructor(query, table, rows) {
    this.text = folded(query.get("text") || "");
    this.where = new Map();
    for (const [name, value] of pairs(query, "where")) this.where.set(name, [...(this.where.get(name) || []), value]);
    this.disagree = query.has("disagree");
    this.rows = rows;
    this.found = new Uint8Array(table.length);
    this.next = 0;
  }

  /** Search for `budget` milliseconds; return how many items are left. */
  async goOn(run, budget) {
    const until = performance.now() + budget;
    const { rows, sizes } = run.data;
    let position = sizes.slice(0, this.next).reduce((sum, size) => sum + size, 0);
    while (this.next < sizes.length && performance.now() < until) {
      const number = this.next;
      const items = await run.chunk(number);
      if (this.next !== number) break; // another call has searched it meanwhile
      this.next += 1;
      for (const item of items) {
        const row = rows[position];
        this.found[row.position] = this.holds(item, row) ? 1 : 0;
        position += 1;
      }
    }
    return sizes.slice(this.next).reduce((sum, size) => sum + size, 0);
  }

  holds(item, row) {
    return (!this.disagree || Boolean(row.disagree))
      && [...this.where].every(([name, wanted]) => { const value = fieldOf(item, name); return value !== NOTHING && wanted.some((one) => is(value, one)); })
      && (!this.text || texts(item).some((text) => folded(text).includes(this.text)));
  }
}

/** A text in which upper and lower case are the same; "ß" is "ss". */
function folded(text) { return text.toUpperCase().toLowerCase(); }

function has(object, name) { return object !== null && typeof object === "object" && !Array.isArray(object) && Object.hasOwn(object, name); }

function fieldOf(item, name) {
  if (has(item.row, name)) return item.row[name];
  if (["id", "trial", "status"].includes(name)) return item[name];
  let value = item.row;
  for (const key of name.split(".")) {
    if (!has(value, key)) return NOTHING;
    value = value[key];
  }
  return value;
}

function is(value, wanted) {
  if (Array.isArray(value)) return value.some((one) => is(one, wanted));
  if (value === wanted) return true;
  if (WORDS.has(value)) return WORDS.get(value).includes(wanted.toLowerCase());
  return typeof value === "number" && wanted.trim() !== "" && Number(wanted) === value;
}

/** The strings and numbers of an item: row, answer, errors, labels and reasons. */
function texts(item) {
  const found = [];
  const left = [item.id, item.input, item.expected, item.row, item.output, item.error?.type, item.error?.message,
    ...item.scores.flatMap((score) => [score.label, score.explanation, score.error])];
  while (left.length) {
    const value = left.pop();
    if (typeof value === "string") found.push(value);
    else if (value !== null && typeof value === "object") left.push(...Object.values(value));
    else if (value !== null && value !== undefined) found.push(String(value));
  }
  return found;
}
