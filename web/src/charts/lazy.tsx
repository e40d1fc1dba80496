// The charts and the library they need are loaded when the first one is shown.
import { Suspense, lazy, type ComponentProps, type ReactNode } from "react";

const LoadedMemoryChart = lazy(() => import("./MemoryChart").then((module) => ({ default: module.MemoryChart })));
const LoadedThroughputChart = lazy(() =>
  import("./ThroughputChart").then((module) => ({ default: module.ThroughputChart })),
);

export const CHART_HEIGHT = "h-72";

function Loading({ children }: { children: ReactNode }) {
  // The legend above and the table below take room too.
  return <Suspense fallback={<div className="h-[23.25rem] sm:h-[22rem]" />}>{children}</Suspense>;
}

export function MemoryChart(props: ComponentProps<typeof LoadedMemoryChart>) {
  return (
    <Loading>
      <LoadedMemoryChart {...props} />
    </Loading>
  );
}

export function ThroughputChart(props: ComponentProps<typeof LoadedThroughputChart>) {
  return (
    <Loading>
      <LoadedThroughputChart {...props} />
    </Loading>
  );
}
