// The numbers of all items of a report, as columns, filtered and sorted as run/reading/run_table.py does.

import { spelled } from "./address.js";
import { SourceError } from "./source.js";

const LIMITS = { below: (a, b) => a < b, above: (a, b) => a > b, least: (a, b) => a >= b, most: (a, b) => a <= b };

export class FileTable {
  constructor(data) {
    this.ids = data.ids;
    this.trials = data.trials;
    this.length = data.ids.length * data.trials;
    this.rowOf = new Map(data.ids.map((id, row) => [id, row]));
    data.ids.forEach((id, row) => { if (!this.rowOf.has(spelled(id))) this.rowOf.set(spelled(id), row); });
    this.isMissing = this.flags(data.not_answered);
    this.isFailed = this.flags(data.failed);
    this.failedScores = data.failed_scores.map(([name, positions]) => [name, this.flags(positions)]);
    this.seconds = numbers(data.seconds);
    this.costs = data.costs ? numbers(data.costs) : new Float64Array(this.length).fill(NaN);
    this.scores = new Map(data.scores.map(([name, values]) => [name, numbers(values)]));
    this.labels = new Map(data.labels);
  }

  flags(positions) {
    const flags = new Uint8Array(this.length);
    for (const position of positions) flags[position] = 1;
    return flags;
  }

  where(position) {
    return { id: this.ids[Math.floor(position / this.trials)], trial: position % this.trials };
  }

  position(id, trial) {
    const row = this.rowOf.get(id);
    return row === undefined || !(trial >= 0 && trial < this.trials) ? null : row * this.trials + trial;
  }

  /** Flags of the positions at which a query holds, as far as numbers tell. */
  holds(query) {
    const held = new Uint8Array(this.length).fill(1);
    const keep = (test) => { for (let position = 0; position < held.length; position += 1) if (held[position] && !test(position)) held[position] = 0; };
    if (query.has("failed")) { const all = this.failuresOf(query.get("failed")); keep((position) => all.some((flags) => flags[position])); }
    for (const [option, test] of Object.entries(LIMITS)) {
      for (const [name, limit] of limits(query, option)) { const values = this.limited(name); keep((position) => test(values[position], limit)); }
    }
    for (const [name, label] of pairs(query, "label", [...this.labels.keys()])) {
      const { names, numbers: of } = this.labelsOf(name);
      const wanted = names.includes(label) ? names.indexOf(label) : names.length;
      keep((position) => of[position] === wanted);
    }
    return held;
  }

  /** Where a step failed; "1" or nothing: where any did. */
  failuresOf(step) {
    const steps = new Map([["workflow", this.isFailed], ...this.failedScores]);
    if (step === "" || step === "1") return [...steps.values()];
    if (!steps.has(step)) throw new SourceError(`no step is called '${step}'; known: ${[...steps.keys()].join(", ")}`);
    return [steps.get(step)];
  }

  /** Positions in an order; those without a value come last. */
  ordered(positions, sort) {
    // A score's name may begin with "-".
    const isName = this.scores.has(sort) || this.labels.has(sort);
    const descending = sort.startsWith("-") && !isName;
    const name = descending ? sort.slice(1) : sort;
    if (name === "position") return descending ? positions.reverse() : positions;
    const values = this.valuesOf(name);
    const sign = descending ? -1 : 1;
    const has = positions.filter((position) => !Number.isNaN(values[position]));
    has.sort((a, b) => sign * (values[a] - values[b]));
    return [...has, ...positions.filter((position) => Number.isNaN(values[position]))];
  }

  valuesOf(name) {
    if (name === "seconds") return this.seconds;
    if (name === "cost") return this.costs;
    if (this.scores.has(name)) return this.scores.get(name);
    const { names, numbers: of } = this.labelsOf(name);
    const ranks = new Map([...names].sort().map((label, rank) => [label, rank]));
    return Float64Array.from(of, (number) => (number < 0 ? NaN : ranks.get(names[number])));
  }

  /** The values that a limit is about: of a score, or of times and costs if no score has this name. */
  limited(name) {
    const isAmount = ["seconds", "cost"].includes(name) && !this.scores.has(name) && !this.labels.has(name);
    return isAmount ? this.valuesOf(name) : this.scoresOf(name);
  }

  scoresOf(name) {
    const found = this.scores.get(name);
    if (!found) throw this.unknown(name);
    return found;
  }

  labelsOf(name) {
    const found = this.labels.get(name);
    if (!found) throw this.unknown(name);
    return found;
  }

  unknown(name) {
    const known = [...new Set([...this.scores.keys(), ...this.labels.keys()])].join(", ") || "none yet";
    return new SourceError(`no score is called '${name}'; known: ${known}`);
  }

  // ---- items of which only the numbers are here ---------------------------------------------------

  row(position) {
    const scores = {};
    for (const name of new Set([...this.scores.keys(), ...this.labels.keys()])) {
      const score = this.score(name, position);
      if (score.value !== null || score.label !== null) own(scores, name, score);
    }
    const failed = {};
    for (const [name, flags] of this.failedScores) if (flags[position]) own(failed, name, "failed");
    return {
      ...this.where(position), position, status: this.status(position), input: null, output: null, error: null,
      scores, failed_scores: failed, seconds: orNull(this.seconds[position]), cost: orNull(this.costs[position]),
    };
  }

  score(name, position) {
    const values = this.scores.get(name);
    const labels = this.labels.get(name);
    return { value: values ? orNull(values[position]) : null, label: labels?.names[labels.numbers[position]] ?? null };
  }

  status(position) {
    if (this.isFailed[position]) return "failed";
    return this.isMissing[position] ? "not_run" : "completed";
  }

  item(position) {
    const row = this.row(position);
    return {
      ...row, trials: this.trials, words: row.status.replaceAll("_", " "), in_flight: [], masked: [], by_current_version: true,
      scores: Object.entries(row.scores).map(([name, score]) => ({ name, ...score })), texts_left_out: true,
    };
  }
}

const numbers = (values) => Float64Array.from(values, (value) => value ?? NaN);
const orNull = (value) => (Number.isNaN(value) ? null : value);

/** Set a property of any name, "__proto__" too. */
function own(object, name, value) {
  Object.defineProperty(object, name, { value, enumerable: true });
}

export function pairs(query, option, known = []) {
  return query.getAll(option).map((text) => {
    const named = known.find((name) => text.startsWith(`${name}:`)); // a name may have a colon
    if (named) return [named, text.slice(named.length + 1)];
    const at = option === "label" || option === "where" ? text.indexOf(":") : text.lastIndexOf(":");
    if (at < 0) throw new SourceError(`${option}=${text}: must be NAME:VALUE`);
    return [text.slice(0, at), text.slice(at + 1)];
  });
}

function limits(query, option) {
  // The last one of a name wins.
  return new Map(pairs(query, option).map(([name, text]) => {
    if (text.trim() === "" || !Number.isFinite(Number(text))) throw new SourceError(`${option}=${name}:${text}: must end in a number`);
    return [name, Number(text)];
  }));
}
