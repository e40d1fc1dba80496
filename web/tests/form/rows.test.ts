import { describe, expect, it } from "vitest";
import { rowsOf } from "../../src/form/rows";

const cells = (names: string) => [...names].map((name) => ({ name, isWide: name === name.toUpperCase() }));

describe("fields in rows", () => {
  it("share a row two by two where they are narrow, in their order", () => {
    const rows = rowsOf(cells("AbCdEf")).map((row) => row.map((cell) => cell.name).join(""));
    expect(rows).toEqual(["A", "bd", "C", "E", "f"]);
    expect(rowsOf([])).toEqual([]);
  });
});
