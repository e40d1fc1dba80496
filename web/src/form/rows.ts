// Fields in rows: a narrow one shares its row with the next narrow one; the last has it for itself.

export function rowsOf<T extends { isWide: boolean }>(cells: readonly T[]): T[][] {
  const rows: T[][] = [];
  const left = [...cells];
  for (let cell = left.shift(); cell; cell = left.shift()) {
    const at = cell.isWide ? -1 : left.findIndex((other) => !other.isWide);
    rows.push(at < 0 ? [cell] : [cell, ...left.splice(at, 1)]);
  }
  return rows;
}
