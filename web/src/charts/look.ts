// How axes, grids and tooltips look in every chart.
export const AXIS = {
  stroke: "#6f6f6f",
  tick: { fill: "#b4b4b4", fontSize: "0.75rem" },
  tickLine: false,
} as const;

export const GRID = { stroke: "#2b2b2b", vertical: false } as const;

/** What stands below an x axis; room for the numbers grows with them. */
export const BATCH_LABEL = {
  value: "batch size",
  position: "bottom",
  offset: -2,
  fill: "#b4b4b4",
  fontSize: "0.75rem",
} as const;

const PIXELS_PER_REM = parseFloat(getComputedStyle(document.documentElement).fontSize);

/** Pixels of so many rem: room for texts, which are larger on large screens. */
export function rem(size: number): number {
  return size * PIXELS_PER_REM;
}
