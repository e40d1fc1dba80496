// The charts and the library they need are loaded when the first one is shown.
import { Suspense, lazy, type ComponentProps, type ReactNode } from "react";

const AFTER_THE_FIRST_MS = 120;

const LoadedMemoryChart = lazy(() => import("./MemoryChart").then((module) => ({ default: module.MemoryChart })));
// Its first drawing comes after the other chart's, so that the page answers in between.
const LoadedThroughputChart = lazy(async () => {
  const [module] = await Promise.all([import("./ThroughputChart"), import("./MemoryChart")]);
  await new Promise((resolve) => setTimeout(resolve, AFTER_THE_FIRST_MS));
  return { default: module.ThroughputChart };
});
const LoadedContestChart = lazy(() => import("./ContestChart").then((module) => ({ default: module.ContestChart })));

/** `room` is the space that the chart will take, with the legend above it and the table below. */
function Loading({ room, children }: { room: string; children: ReactNode }) {
  return <Suspense fallback={<div className={room} />}>{children}</Suspense>;
}

export function MemoryChart(props: ComponentProps<typeof LoadedMemoryChart>) {
  return (
    <Loading room="h-[24.25rem] sm:h-[22.5rem]">
      <LoadedMemoryChart {...props} />
    </Loading>
  );
}

export function ThroughputChart(props: ComponentProps<typeof LoadedThroughputChart>) {
  return (
    <Loading room="h-[23rem] sm:h-[22.5rem]">
      <LoadedThroughputChart {...props} />
    </Loading>
  );
}

export function ContestChart(props: ComponentProps<typeof LoadedContestChart>) {
  return (
    <Loading room="h-[23rem] sm:h-[22.5rem]">
      <LoadedContestChart {...props} />
    </Loading>
  );
}
