// Where the pages get their data: from the server of `limpet view`, or from the report's own file.
// Both have the same methods, which return the JSON of the server's /api/….

import { spelled } from "./address.js";

export class SourceError extends Error {}

const CHANGES = ["score", "direction", "text", "sort"];

/** The runs that a query compares, and some of its other values. */
function runsIn(query, more = []) {
  return [...query].filter(([name, value]) => value && ["base", "new", "by", ...more].includes(name));
}

/** The server. It does not send an unchanged answer again. */
export class ServerSource {
  constructor() {
    this.isLive = true;
    this.known = new Map();
  }

  async ask(path, query, { fresh = false } = {}) {
    const address = `api/${path}?${new URLSearchParams(query)}`;
    const before = this.known.get(address);
    const headers = before && !fresh ? { "If-None-Match": before.tag } : {};
    let response;
    try {
      response = await fetch(address, { headers, cache: "no-store" });
    } catch {
      throw new SourceError("limpet view does not respond: is it still running?");
    }
    if (response.status === 304) return before.data;
    const data = await response.json().catch(() => ({}));
    if (!response.ok) throw new SourceError([data.error, data.hint].filter(Boolean).join(": ") || `${response.status} ${response.statusText}`);
    data.received = performance.now();
    const tag = response.headers.get("ETag");
    if (tag) {
      if (this.known.size > 50) this.known.clear();
      this.known.set(address, { tag, data });
    }
    return data;
  }

  runs() { return this.ask("runs", {}); }

  /** With `soon`, of a large run only what is known at once. */
  run(run, soon = false) { return this.ask("run", { run, ...(soon ? { soon: 1 } : {}) }); }

  by(run, field) { return this.ask("by", { run, field: spelled(field) }); }

  setup(run) { return this.ask("setup", { run }); }

  items(run, query, from, many) {
    const params = new URLSearchParams(query);
    params.set("run", run);
    params.set("from", from);
    params.set("count", many);
    return this.ask("items", params);
  }

  /** The items before and after one, among those that match a query, and its position there. */
  near(run, query, id, trial) {
    const params = new URLSearchParams(query);
    params.set("run", run);
    params.set("id", spelled(id));
    params.set("trial", trial);
    return this.ask("near", params);
  }

  item(run, id, trial, whole = false, score = null) {
    return this.ask("item", { run, id, trial, ...(whole ? { whole: 1 } : {}), ...(score ? { score } : {}) });
  }

  /** The address of an image that a field of an item names. */
  image(run, { id, trial }, file) {
    const query = { run: spelled(run), id: spelled(id), trial, file: spelled(file) };
    return `api/image?${new URLSearchParams(query)}`;
  }

  compare(query) { return this.ask("compare", runsIn(query)); }

  /** Some rows of the list of changes. */
  changes(query, from, many) { return this.ask("changes", [...runsIn(query, CHANGES), ["from", from], ["count", many]]); }

  /** The changes before and after one. */
  changeNear(query, id, trial) { return this.ask("changes", [...runsIn(query, CHANGES), ["id", spelled(id)], ["trial", trial]]); }

  matrices() { return this.ask("matrices", {}); }

  label(label) { return this.post("label", label); }

  order(order) { return this.post("order", order); }

  async post(path, content) {
    let response;
    try {
      response = await fetch(`api/${path}`, {
        method: "POST",
        headers: { "Content-Type": "application/json" },
        body: JSON.stringify(content),
      });
    } catch {
      throw new SourceError("limpet view does not respond: is it still running?");
    }
    const data = await response.json().catch(() => ({}));
    if (!response.ok) throw new SourceError([data.error, data.hint].filter(Boolean).join(": ") || `${response.status} ${response.statusText}`);
    this.known.clear();
    return data;
  }
}
