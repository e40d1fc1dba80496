// Tables for a spreadsheet.

export type CsvCell = string | number | boolean | null | undefined;

export function csv(rows: readonly (readonly CsvCell[])[]): string {
  return rows.map((row) => row.map(field).join(",") + "\r\n").join("");
}

/** A line for each item, with these of its fields. */
export function csvOf<T extends object, K extends keyof T & string>(items: readonly T[], names: readonly K[]): string {
  return csv([names, ...items.map((item) => names.map((name) => item[name] as CsvCell))]);
}

function field(cell: CsvCell): string {
  const text = cell === null || cell === undefined ? "" : String(cell);
  // A spreadsheet would run text that begins like a formula.
  const safe = typeof cell === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
