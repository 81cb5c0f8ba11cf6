// Images that are shown: files of the dataset, which the server has checked, and data: URLs of PNG,
// JPEG, WebP or GIF. As view/images.py does: the type is that of the first bytes, and neither
// bytes nor pixels are too many. Nothing is fetched from elsewhere.

import { el } from "./dom.js";
import { bytes } from "./format.js";

const MOST_BYTES = 10_000_000;
const MOST_PIXELS = 50_000_000;
const DATA = /^data:image\/(?:png|jpe?g|webp|gif);base64,([A-Za-z0-9+/]+={0,2})$/i;

/** Return whether a text is meant to be an image. */
export function isImage(text) { return typeof text === "string" && /^data:image\//i.test(text); }

/** Return the image in a data: URL, or why it is not shown. */
export function dataImage(url, title = "image") {
  const data = url.length < 1.4 * MOST_BYTES ? DATA.exec(url)?.[1] : null;
  const found = data === null ? "is too large" : data ? sizeOf(data) : "is incomplete, or no PNG, JPEG, WebP or GIF";
  return typeof found === "string" ? unseen(title, `${found}: ${url.slice(0, 40)}… (${bytes(url.length)})`) : picture(url, title, found);
}

/** Return an image that was checked. */
export function picture(src, title, { width, height }) {
  return el("figure", { class: "picture" }, el("img", { src, alt: title, width, height, loading: "lazy", decoding: "async" }),
    el("figcaption", { class: "dim small" }, `${title}, ${width} × ${height}`));
}

export function unseen(title, why) { return el("p", { class: "dim unseen" }, `${title}: ${why}`); }

/** Return width and height of an image in base64, or what is wrong with it. */
function sizeOf(data) {
  let letters;
  try { letters = atob(data); } catch { return "is damaged"; }
  const at = (position) => letters.charCodeAt(position);
  const big = (position) => at(position) * 256 + at(position + 1);
  const little = (position, many = 2) => Array.from({ length: many }, (_, n) => at(position + n) * 256 ** n).reduce((a, b) => a + b, 0);
  let size = null;
  if (letters.startsWith("\x89PNG\r\n\x1a\n") && letters.slice(12, 16) === "IHDR") {
    size = [big(16) * 65536 + big(18), big(20) * 65536 + big(22)];
  } else if (/^GIF8[79]a/.test(letters)) {
    size = [little(6), little(8)];
  } else if (letters.startsWith("RIFF") && letters.slice(8, 12) === "WEBP") {
    const kind = letters.slice(12, 16);
    if (kind === "VP8 ") size = [little(26) & 0x3fff, little(28) & 0x3fff];
    if (kind === "VP8L") size = [(little(21) & 0x3fff) + 1, ((little(21, 4) >>> 14) & 0x3fff) + 1];
    if (kind === "VP8X") size = [little(24, 3) + 1, little(27, 3) + 1];
  } else if (letters.startsWith("\xff\xd8\xff")) {
    let next = 2;
    while (at(next) === 0xff) {
      const kind = at(next + 1);
      if (kind >= 0xc0 && kind <= 0xcf && ![0xc4, 0xc8, 0xcc].includes(kind)) { size = [big(next + 7), big(next + 5)]; break; }
      next += 2 + big(next + 2);
    }
  }
  if (!size || !(size[0] > 0 && size[1] > 0)) return "is no PNG, JPEG, WebP or GIF";
  if (size[0] * size[1] > MOST_PIXELS) return `has too many pixels, ${size[0]} × ${size[1]}`;
  return { width: size[0], height: size[1] };
}
