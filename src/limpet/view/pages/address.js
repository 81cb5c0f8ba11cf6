// The part after # says what is shown, so that a link shows the same:
// #/items?run=support&failed=1&sort=-correct

/**
 * Return a text as an address can hold it. An address cannot hold half characters, which ids and
 * names of directories may contain: such a text becomes a JSON string.
 */
export function spelled(text) {
  return typeof text === "string" && text.isWellFormed?.() === false ? JSON.stringify(text) : text;
}

/** Return the view's name and its query, a URLSearchParams. */
export function read() {
  const [path, query = ""] = window.location.hash.replace(/^#\/?/, "").split("?");
  return { view: path, query: new URLSearchParams(query) };
}

/** Return the address of a view. */
export function to(view, query = {}) {
  const params = query instanceof URLSearchParams ? query : new URLSearchParams();
  if (!(query instanceof URLSearchParams)) {
    for (const [name, value] of Object.entries(query)) {
      if (value !== null && value !== undefined && value !== "") params.append(name, spelled(value));
    }
  }
  const text = params.toString();
  return `#/${view}${text ? `?${text}` : ""}`;
}

/** Return a copy of a query with some of its values changed; null removes one. */
export function changed(query, changes) {
  const copy = new URLSearchParams(query);
  for (const [name, value] of Object.entries(changes)) {
    copy.delete(name);
    const values = Array.isArray(value) ? value : [value];
    for (const one of values) if (one !== null && one !== "") copy.append(name, spelled(one));
  }
  return copy;
}

export function go(view, query) {
  window.location.hash = to(view, query).slice(1);
}

/** Change the address without a new entry in the browser's history. */
export function replace(view, query) {
  window.history.replaceState(null, "", to(view, query));
}
