// What the speed is worth in money.
import type { Analysis } from "../api/types";
import { isFaster } from "./analysis";

/** The price to begin with if none is known. */
export const NO_PRICE = 0;

export interface CostInput {
  pricePerHour: number;
  hoursPerRun: number;
  runsPerYear: number;
  people: number;
}

export interface Savings {
  perRun: number;
  perYear: number;
  spentPerYear: number;
}

/** A run that gets `speedup` times faster pays only 1/speedup of its hours. */
export function savings(input: CostInput, speedup: number): Savings {
  const runs = input.runsPerYear * input.people;
  const perRun = input.pricePerHour * input.hoursPerRun * (1 - 1 / speedup);
  return { perRun, perYear: perRun * runs, spentPerYear: input.pricePerHour * input.hoursPerRun * runs };
}

/** Null where the savings are known. */
export function whyNoSavings(analysis: Analysis, cost: CostInput): string | null {
  if (analysis.speedup === null) return "Unknown: today's batch was not timed";
  if (!isFaster(analysis)) return "No faster, so nothing is saved";
  return cost.pricePerHour === NO_PRICE ? "No price is known: enter yours below" : null;
}

export const LAB_SPENDS_PER_YEAR = 47_000;
const LAB = { runsPerYear: 100, people: 5 };

/** An assumption: a lab of five with a hundred runs each that spends $47,000 a year at this price. */
export function labThatSpends47k(pricePerHour: number): CostInput {
  const hoursPerRun = LAB_SPENDS_PER_YEAR / (pricePerHour * LAB.runsPerYear * LAB.people);
  return { pricePerHour, hoursPerRun, ...LAB };
}
