import { readFileSync, readdirSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";

const SRC = fileURLToPath(new URL("../src", import.meta.url));
/** As in the README: a folder imports only from those before it. */
const LAYERS =
  "api shared ui form events result charts running answer lengths gpus advice compare history front job sweeps app".split(" ");

const folderOf = (file: string) => relative(SRC, file).split("/")[0]!;
const files = readdirSync(SRC, { recursive: true, encoding: "utf8" })
  .filter((name) => /\.tsx?$/.test(name) && name.includes("/"))
  .map((name) => join(SRC, name));

describe("the folders", () => {
  it("are all in the list", () => {
    expect([...new Set(files.map(folderOf))].sort()).toEqual([...LAYERS].sort());
  });

  it("import only from those before them", () => {
    const upwards = files.flatMap((file) =>
      [...readFileSync(file, "utf8").matchAll(/(?:from|import\()\s*"(\.[^"]+)"/g)]
        .map((match) => resolve(dirname(file), match[1]!))
        .filter((imported) => LAYERS.indexOf(folderOf(imported)) > LAYERS.indexOf(folderOf(file)))
        .map((imported) => `${relative(SRC, file)} imports ${relative(SRC, imported)}`),
    );
    expect(upwards).toEqual([]);
  });
});
