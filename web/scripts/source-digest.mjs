// The digest of all that the build is made from. scripts/source_digest.py describes it and does the same.
import { createHash } from "node:crypto";
import { readFileSync, readdirSync } from "node:fs";
import { join, sep } from "node:path";
import { fileURLToPath } from "node:url";

const WEB = fileURLToPath(new URL("..", import.meta.url));
const FOLDER = "src";
const FILES = ["index.html", "openapi.json", "package-lock.json", "vite.config.ts"];

const sha256 = (content) => createHash("sha256").update(content).digest("hex");

export function sourceDigest() {
  const inFolder = readdirSync(join(WEB, FOLDER), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name).slice(WEB.length).split(sep).join("/"));
  const names = [...FILES, ...inFolder].sort();
  const lines = names.map((name) => `${sha256(readFileSync(join(WEB, name)))} ${name}\n`);
  return sha256(lines.join(""));
}
