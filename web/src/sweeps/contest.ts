// Speed against money: the points of the chart.
import type { SweepCase, SweepGroup } from "../api/types";
import type { ContestPoint } from "../charts/ContestChart";
import { shortGpuName } from "../shared/format";
import { rateOf } from "../shared/rate";

/** A chart of a single case says nothing. */
const LEAST_POINTS = 2;

/** The points of a group, the cheapest first; none if there is nothing to compare. */
export function contestPoints(group: SweepGroup, cases: readonly SweepCase[]): ContestPoint[] {
  const members = new Set(group.case_numbers);
  const points = cases.flatMap((one) => {
    const [cost, rate] = [one.usd_per_million_samples, rateOf(one)];
    if (!members.has(one.number) || cost === null || !rate) return [];
    const name = `${shortGpuName(one.gpu_name)}, ${one.recipe}`;
    return [{ number: one.number, name, cost, rate, isOnFront: group.front.includes(one.number) }];
  });
  return points.length < LEAST_POINTS ? [] : points.sort((a, b) => a.cost - b.cost);
}

/** `BERT base, 128 tokens`. */
export function groupName({ model_name, sample }: SweepGroup): string {
  return [model_name, sample].filter(Boolean).join(", ");
}
