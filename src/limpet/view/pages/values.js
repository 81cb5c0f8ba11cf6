// How a value of a dataset or a model is shown on the page of a pair: all of them go through here.

import { diffSides } from "./diff.js";
import { longText, textOf } from "./dom.js";

/** Return a value as an element. */
export function shownValue(value) { return longText(textOf(value)); }

/** Return two values as elements, with the words in which they differ marked. */
export function shownDifference(before, after) { return diffSides(textOf(before), textOf(after)); }
