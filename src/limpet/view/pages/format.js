// Writes numbers, times and amounts in a few characters.

const NONE = "–";

/** A score or a mean: up to four significant digits. */
export function number(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return String(Number(value.toPrecision(4)));
}

export function count(value) {
  return value === null || value === undefined ? NONE : Math.round(value).toLocaleString("en");
}

/** A value that may be true, false, a number, a label or nothing. */
export function scoreWords(score) {
  if (!score) return NONE;
  const { value, label } = score;
  if (value === null || value === undefined) return label || NONE;
  const words = typeof value === "boolean" ? (value ? "yes" : "no") : number(value);
  return label ? `${words} ${label}` : words;
}

/** The ends of an interval, with decimals to fit its width. */
export function range(low, high) {
  const many = decimals(low, high);
  return `${fixed(low, many)}${low < 0 ? " to " : "–"}${fixed(high, many)}`;
}

/** How many decimals the ends of an interval get; a value between them gets one more. */
function decimals(low, high) {
  const width = high - low;
  if (width >= 2) return width >= 20 ? 0 : 1;
  return width >= 0.02 ? 2 : Math.min(6, 2 + Math.ceil(Math.log10(0.02 / Math.max(width, 1e-9))));
}

export function fixed(value, many) {
  if (value === null || value === undefined) return NONE;
  return (Math.abs(value) >= 1e6 ? value.toPrecision(4) : value.toFixed(many)).replace("-", "−");
}

export function signed(value, many = 3) {
  if (value === null || value === undefined) return NONE;
  return `${value > 0 ? "+" : ""}${fixed(value, many)}`;
}

/** A p value, with two digits. */
export function pWords(p) {
  if (p === null || p === undefined) return NONE;
  return p < 0.001 ? "< 0.001" : number(Number(p.toPrecision(2)));
}

export function seconds(value) {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  if (value < 0.9995) return `${Math.round(value * 1000)} ms`;
  if (value < 59.95) return `${Number(value.toPrecision(3))} s`;
  const whole = Math.round(value);
  const minutes = Math.floor(whole / 60);
  if (minutes < 60) return `${minutes} min ${whole % 60} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

/** A moment as people write it, in the reader's own time zone. */
export function moment(text) {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return text;
  const two = (part) => String(part).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

export function ago(age) {
  if (age === null || age === undefined) return NONE;
  if (age < 5) return "now";
  if (age < 60) return `${Math.round(age)} s ago`;
  if (age < 3600) return `${Math.round(age / 60)} min ago`;
  return age < 172800 ? `${Math.round(age / 3600)} h ago` : `${Math.round(age / 86400)} days ago`;
}

export function money(value) {
  if (!value) return NONE;
  if (value < 1e-6) return "< $0.000001";
  return `$${value < 1 ? value.toPrecision(2) : value.toFixed(2)}`;
}

export function bytes(value) {
  if (value < 1e3) return `${value} bytes`;
  return value < 1e6 ? `${(value / 1e3).toFixed(0)} KB` : `${(value / 1e6).toFixed(1)} MB`;
}

/** The first of a word's forms if there is one, else the second: `plural(1, "item", "items")`. */
export function plural(many, one, more = `${one}s`) {
  return `${count(many)} ${many === 1 ? one : more}`;
}

/** The words of `limpet compare`, each with its colour. */
export const VERDICTS = { better: ["better", "good"], worse: ["worse", "bad"], "no difference seen": ["unclear", ""], "not known": ["–", "dim"] };
