// What changed between two texts, word by word.

import { el } from "./dom.js";

const MOST_WORDS = 2000;
const SHORT = 200;

/** Return whether the difference of two texts is read at a glance: a few words, of both. */
export function areShort(before, after) {
  if (Math.max(before.length, after.length) > 20 * SHORT) return false;
  const [few, many] = [words(before).length, words(after).length].sort((a, b) => a - b);
  return many > 1 && many <= SHORT && many <= 4 * few;
}

/** Return the words of two texts as `[kind, text]`: "same", "removed" or "added". */
function wordDiff(before, after) {
  const a = words(before);
  const b = words(after);
  if (a.length > MOST_WORDS || b.length > MOST_WORDS) {
    return before === after ? [["same", before]] : [["removed", before], ["added", after]];
  }
  const common = lengths(a, b);
  const parts = [];
  const add = (kind, text) => {
    if (parts.length && parts.at(-1)[0] === kind) parts.at(-1)[1] += text;
    else parts.push([kind, text]);
  };
  let i = 0;
  let j = 0;
  while (i < a.length && j < b.length) {
    if (a[i] === b[j]) { add("same", a[i]); i += 1; j += 1; }
    else if (common[i + 1][j] >= common[i][j + 1]) { add("removed", a[i]); i += 1; }
    else { add("added", b[j]); j += 1; }
  }
  for (; i < a.length; i += 1) add("removed", a[i]);
  for (; j < b.length; j += 1) add("added", b[j]);
  return parts;
}

/** Return whether two texts have enough in common that marks help. */
export function areAlike(before, after) {
  const same = wordDiff(before, after).filter(([kind]) => kind === "same").reduce((sum, [, text]) => sum + text.length, 0);
  return areShort(before, after) || 8 * same >= before.length + after.length;
}

/** Return the words of a text, each with the space behind it. */
function words(text) { return text.match(/\s+|[^\s]+\s*/gu) || []; }

/** Return, for each pair of positions, how many words the rests have in common, in order. */
function lengths(a, b) {
  const table = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
    }
  }
  return table;
}

/** Return a text with removed and added words marked. */
export function diffText(before, after) {
  const marks = { same: "span", removed: "del", added: "ins" };
  return el("pre", { class: "text diff", tabindex: "0" },
    wordDiff(before, after).map(([kind, text]) => el(marks[kind], {}, text)));
}

/** Return two texts as elements: the first with its removed words marked, the second with the added ones. */
export function diffSides(before, after) {
  const parts = wordDiff(before, after);
  return [["removed", "del"], ["added", "ins"]].map(([kind, mark]) => el("pre", { class: "text diff", tabindex: "0", dir: "auto" },
    parts.filter(([one]) => one === "same" || one === kind).map(([one, text]) => el(one === kind ? mark : "span", {}, text))));
}
