// Prints what a browser loads first and what it loads later, gzipped; fails above the budget.
import { readFileSync, readdirSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

const BUILD = fileURLToPath(new URL("../../src/memorymark/server/dashboard/", import.meta.url));
const BUDGET_KB = 300;

const page = readFileSync(`${BUILD}index.html`, "utf8");
const files = readdirSync(`${BUILD}assets`)
  .filter((name) => /\.(js|css)$/.test(name))
  .map((name) => ({
    name,
    kb: gzipSync(readFileSync(`${BUILD}assets/${name}`)).length / 1000,
    when: page.includes(name) ? "first" : "later",
  }))
  .sort((a, b) => a.when.localeCompare(b.when) || b.kb - a.kb);
for (const { name, kb, when } of files) console.log(`${when}  ${kb.toFixed(1).padStart(7)} kB  ${name}`);
const first = files.filter((file) => file.when === "first").reduce((sum, file) => sum + file.kb, 0);
console.log(`first load: ${first.toFixed(1)} kB gzipped of at most ${BUDGET_KB} kB`);
process.exit(first > BUDGET_KB ? 1 : 0);
