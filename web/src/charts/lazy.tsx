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
