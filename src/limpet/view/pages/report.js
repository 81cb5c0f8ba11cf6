// The page of a report: one file that contains its data.

import { to } from "./address.js";
import { fill } from "./dom.js";
import { FileSource } from "./file_source.js";
import { start } from "./main.js";

async function open() {
  if (!window.DecompressionStream) throw new Error("this browser is too old: use one from 2023 or later");
  const source = await FileSource.open();
  if (!window.location.hash) window.history.replaceState(null, "", to("run", source.query("run")));
  start(source, { first: "run" });
}

open().catch((error) => fill(document.body, `This report cannot be read: ${error.message}`));
