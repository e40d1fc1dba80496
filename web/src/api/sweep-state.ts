import type { GridSweep } from "./types";

/** What is known of a sweep after one more answer, which holds only the cases that changed. */
export function merged(before: GridSweep | undefined, now: GridSweep): GridSweep {
  // A history that was replaced counts its changes anew.
  if (!before || now.upto < before.upto) return now;
  const groups = now.groups ?? before.groups;
  if (now.cases.length === 0) return { ...now, cases: before.cases, groups };
  const changed = new Map(now.cases.map((one) => [one.number, one]));
  const others = before.cases.filter((one) => !changed.has(one.number));
  return { ...now, cases: [...others, ...changed.values()].sort((a, b) => a.number - b.number), groups };
}
