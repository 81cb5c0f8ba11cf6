// The live page of `limpet view`.

import { start } from "./main.js";
import { ServerSource } from "./source.js";

start(new ServerSource());
