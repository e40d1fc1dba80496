// A logarithmic scale for sliders, in whole positions, with values that read well.

export const POSITIONS = 200;

export function toPosition(value: number, [low, high]: readonly [number, number]): number {
  const part = Math.log(value / low) / Math.log(high / low);
  return Math.round(POSITIONS * Math.min(Math.max(part, 0), 1));
}

export function fromPosition(position: number, [low, high]: readonly [number, number], isWhole: boolean): number {
  const value = low * (high / low) ** (position / POSITIONS);
  const rounded = Number(value.toPrecision(2));
  return isWhole ? Math.max(Math.round(rounded), 1) : rounded;
}
