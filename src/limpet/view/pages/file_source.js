// The data of a report, from blocks in its own file: JSON, compressed by gzip, in base64. It has the
// methods of ServerSource, with the same answers.

import { spelled } from "./address.js";
import { moment } from "./format.js";
import { FileChanges } from "./file_changes.js";
import { FileTable } from "./file_table.js";
import { TextSearch } from "./file_search.js";
import { SourceError } from "./source.js";

const MOST_CHUNKS = 8;
const SEARCH_MS = 200;

export class FileSource {
  /** Read the blocks of a page; `text(name)` returns one. */
  static async open(text = blocksOf(document)) {
    const head = await unpacked(text("head"));
    const runs = head.runs.map(async (data, number) =>
      new RunInFile(data, await unpacked(text(`table-${number}`)), (at) => unpacked(text(`texts-${number}-${at}`))));
    return new FileSource(head, await Promise.all(runs), head.compare ? await unpacked(text("changes")) : null);
  }

  constructor(head, runs, changes) {
    this.isLive = false;
    this.head = head;
    this.changed = () => {  // made on first use: most readers look at the run
      this.listed ||= new FileChanges(changes, head.compare.new[0], runs[1], runs[0]);
      return this.listed;
    };
    this.byName = new Map(runs.map((run) => [spelled(run.about.run), run]));
    this.first = runs[0];
    this.views = [["run", "Run"], ["items", "Items"], ...(head.compare ? [["compare", "Compare"]] : [])];
    this.about = `report of ${moment(head.made_at)}`;
    const running = this.first.about.state === "running" ? "The run was still running when this report was written: the numbers are interim." : null;
    this.notes = [running, head.note].filter(Boolean);
  }

  /** The query of a view's address. */
  query(view) {
    if (!["compare", "pair"].includes(view)) return { run: this.first.about.run };
    return this.head.compare ? { base: this.head.compare.base.run, new: this.head.compare.new[0].run } : {};
  }

  of(name) {
    const run = name ? this.byName.get(spelled(name)) : this.first;
    if (!run) throw new SourceError(`this report has no run ${name}`);
    return run;
  }

  async runs() { throw new SourceError("a report has no list of runs"); }

  async run(name) { return { ...this.of(name).about, can_compare: Boolean(this.head.compare) }; }

  async by(name, field) { return this.of(name).data.by[field]; }

  async setup(name) { return this.of(name).data.setup; }

  async items(name, query, from, many) { return this.of(name).items(query, from, many); }

  async near(name, query, id, trial) { return this.of(name).near(query, id, trial); }

  async item(name, id, trial) { return this.of(name).item(id, trial); }

  async compare() {
    if (!this.head.compare) throw new SourceError("this report has no comparison: write one with limpet report RUN --against BASE");
    return this.head.compare;
  }

  async changes(query, from, many) { return this.changed().answer(query, from, many); }

  async changeNear(query, id, trial) { return this.changed().near(query, id, trial); }

  async order() { throw new SourceError("a report takes no orders: use limpet view"); }

  async label() { throw new SourceError("a report takes no labels: use limpet view"); }
}

/** One run of the file. */
class RunInFile {
  constructor(data, table, read) {
    Object.assign(this, { data, about: data.about, table: new FileTable(table), read });
    this.rows = new Map(data.rows.map((row) => [row.position, row]));
    // Where the texts of a position are: in which chunk, and at which index there.
    this.texts = new Map();
    let next = 0;
    data.sizes.forEach((size, chunk) => {
      for (let at = 0; at < size; at += 1, next += 1) this.texts.set(data.rows[next].position, [chunk, at]);
    });
    this.chunks = new Map();
    this.latest = { name: null };
  }

  /** The items of a chunk. The latest chunks are kept. */
  async chunk(number) {
    const known = this.chunks.get(number) || this.read(number);
    this.chunks.delete(number);
    this.chunks.set(number, known);
    if (this.chunks.size > MOST_CHUNKS) this.chunks.delete(this.chunks.keys().next().value);
    return known;
  }

  /** The positions that match a query, in its order, and how many are still to search. */
  async chosen(query) {
    const params = new URLSearchParams(query);
    for (const name of ["run", "id", "trial", "columns", "raw"]) params.delete(name);
    const name = params.toString();
    if (this.latest.name !== name) {
      this.latest = { name, search: TextSearch.of(params, this.table, this.rows), positions: null };
    }
    const { latest } = this;
    const left = latest.search ? await latest.search.goOn(this, SEARCH_MS) : 0;
    if (!latest.positions || latest.search) {
      const found = latest.search?.found;
      const holds = this.table.holds(params);
      const labelled = params.get("labelled");
      const isWanted = (position) => labelled === null || (this.rows.get(position)?.label != null) === (labelled === "1");
      const positions = [];
      for (let position = 0; position < this.table.length; position += 1) if (holds[position] && (!found || found[position]) && isWanted(position)) positions.push(position);
      latest.positions = this.table.ordered(positions, params.get("sort") || "position");
      if (!left) latest.search = null;
    }
    return { positions: latest.positions, left };
  }

  async items(query, from, many) {
    const { positions, left } = await this.chosen(query);
    const rows = positions.slice(from, from + many).map((position) => this.rows.get(position) || this.table.row(position));
    const searches = TextSearch.isWanted(new URLSearchParams(query));
    return {
      ...this.data.items, has_draw: false, total: this.table.length, matching: positions.length, left_to_search: left, from, rows,
      not_searched: searches ? this.table.length - this.rows.size : 0,
    };
  }

  async near(query, id, trial) {
    const { positions } = await this.chosen(query);
    const position = this.table.position(id, trial);
    const at = position === null ? -1 : positions.indexOf(position);
    const beside = (other) => (at >= 0 && other >= 0 && other < positions.length ? this.table.where(positions[other]) : null);
    return { at: at < 0 ? null : at, matching: positions.length, before: beside(at - 1), after: beside(at + 1) };
  }

  async item(id, trial) {
    const position = this.table.position(id, trial);
    if (position === null) throw new SourceError(`no such item in this ${this.data.left_out ? "report" : "run"}`);
    const where = this.texts.get(position);
    return where ? (await this.chunk(where[0]))[where[1]] : this.table.item(position);
  }
}

function blocksOf(page) {
  // Keeps the elements: the page's content will be replaced.
  const blocks = new Map([...page.querySelectorAll('script[type="text/plain"]')].map((block) => [block.id, block]));
  return (name) => blocks.get(name)?.textContent;
}

async function unpacked(text) {
  if (!text) throw new SourceError("a part of the file is missing");
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at += 1) bytes[at] = letters.charCodeAt(at);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
}
