import { memo, useMemo } from "react";
import {
  Area,
  CartesianGrid,
  ComposedChart,
  Line,
  ReferenceArea,
  ReferenceLine,
  ResponsiveContainer,
  Tooltip,
  XAxis,
  YAxis,
} from "recharts";
import { batchTicks, fastBand, roundTicks, thinned, type ThroughputPoint } from "./chart-data";
import { count, perSecond, tick } from "../shared/format";
import type { RateUnit } from "../shared/rate";
import { capitalized } from "../shared/text";
import { ScrollTable } from "../ui/ScrollTable";
import { ChartFrame, type LegendEntry } from "./ChartFrame";
import { ChartTip } from "./ChartTip";
import { AXIS, BATCH_LABEL, GRID, rem } from "./look";

const LINE = "#7cc0ff";
const TODAY = "#ff6b6b";
const BEST = "#00ff88";
const NONE: readonly number[] = [];
const MOST_POINTS = 24;
const INTERVAL = "#41586f";

interface ThroughputChartProps {
  points: readonly ThroughputPoint[];
  today: number;
  recommended: number | null;
  thrashing?: readonly number[];
  /** While trials still arrive, the legend holds all that may come, so that nothing moves. */
  isGrowing?: boolean;
  /** Whether intervals will come, as with predictions. */
  hasIntervals?: boolean;
}

/** Tokens or samples per second by batch size, with the band of the best 5 % and what the true numbers should lie between. */
export const ThroughputChart = memo(function ThroughputChart({
  points,
  today,
  recommended,
  thrashing = NONE,
  isGrowing = false,
  hasIntervals = points.some((point) => point.between),
}: ThroughputChartProps) {
  const shown = useMemo(() => thinned(points, MOST_POINTS), [points]);
  const band = fastBand(points, thrashing);
  const ticks = batchTicks(points.map((point) => point.batch));
  const top = Math.max(...points.map((point) => point.between?.[1] ?? point.speed), 1) * 1.05;
  const best = points.find((point) => point.batch === recommended);
  const now = points.find((point) => point.batch === today);
  const unit = points[0]?.unit ?? "samples";
  const colorOf = (batch: number) => (batch === recommended ? BEST : batch === today ? TODAY : null);
  return (
    <ChartFrame
      label={describe(points, recommended)}
      legend={legendOf(unit, Boolean(best), Boolean(now) || isGrowing, hasIntervals)}
      isEmpty={points.length === 0}
      emptyText="The speed, as soon as batch sizes are timed"
      table={() => <ThroughputTable points={points} unit={unit} thrashing={thrashing} />}
    >
      <ResponsiveContainer width="100%" height="100%">
        <ComposedChart
          data={shown}
          accessibilityLayer={false}
          margin={{ top: 4, right: rem(1), bottom: rem(1), left: 0 }}
        >
          <CartesianGrid {...GRID} />
          <XAxis
            dataKey="batch"
            type="number"
            scale="log"
            domain={points.length > 0 ? ["dataMin", "dataMax"] : [8, 256]}
            ticks={ticks}
            interval={0}
            {...AXIS}
            tickFormatter={count}
            height={rem(1.875)}
            label={BATCH_LABEL}
          />
          <YAxis
            {...AXIS}
            interval={0}
            width={rem(3.5)}
            domain={[0, top]}
            ticks={roundTicks(top)}
            tickFormatter={(speed: number) => tick(speed)}
          />
          <Tooltip
            cursor={{ stroke: "#6f6f6f" }}
            isAnimationActive={false}
            content={({ active, payload }) =>
              active && payload?.[0] ? <PointTip point={payload[0].payload as ThroughputPoint} /> : null
            }
          />
          <Area
            dataKey="between"
            type="monotone"
            stroke="none"
            fill={INTERVAL}
            fillOpacity={0.45}
            isAnimationActive={false}
            activeDot={false}
          />
          {band && <ReferenceArea y1={band[0]} y2={band[1]} fill={BEST} fillOpacity={0.22} />}
          {best && <ReferenceLine x={best.batch} stroke={BEST} strokeDasharray="4 4" strokeWidth={rem(0.0625)} />}
          <Line
            dataKey="speed"
            type="monotone"
            stroke={LINE}
            strokeWidth={rem(0.16)}
            dot={(dot: DotProps) => <PointDot key={dot.payload.batch} {...dot} color={colorOf(dot.payload.batch)} />}
            isAnimationActive={false}
          />
        </ComposedChart>
      </ResponsiveContainer>
    </ChartFrame>
  );
});

interface DotProps {
  cx?: number;
  cy?: number;
  payload: ThroughputPoint;
}

/** A point of the curve; today's and the recommended one are larger and have a color of their own. */
function PointDot({ cx, cy, color }: DotProps & { color: string | null }) {
  return (
    <circle
      cx={cx}
      cy={cy}
      r={rem(color ? 0.4 : 0.19)}
      fill={color ?? LINE}
      stroke="#1a1a1a"
      strokeWidth={color ? rem(0.125) : 0}
    />
  );
}

function legendOf(unit: RateUnit, hasBest: boolean, hasNow: boolean, hasIntervals: boolean): LegendEntry[] {
  return [
    { label: `${capitalized(unit)} per second`, color: LINE },
    ...(hasNow ? [{ label: "Today", color: TODAY }] : []),
    ...(hasBest ? [{ label: "Recommended", color: BEST }] : []),
    { label: "Within 5 % of the best", color: "#12663f" },
    ...(hasIntervals ? [{ label: "Likely range", color: INTERVAL }] : []),
  ];
}

function describe(points: readonly ThroughputPoint[], recommended: number | null): string {
  const [first, last] = [points[0], points.at(-1)];
  if (!first || !last) return "No batch size has been timed yet.";
  const best = recommended === null ? "" : ` Recommended: batch ${recommended}.`;
  return `${capitalized(first.unit)} per second by batch size: from ${perSecond(first.speed)} at batch ${first.batch} to ${perSecond(last.speed)} at batch ${last.batch}.${best} The table below has the numbers.`;
}

function PointTip({ point }: { point: ThroughputPoint }) {
  const rows = [{ label: `${capitalized(point.unit)} per second`, value: perSecond(point.speed), color: LINE }];
  if (point.between) rows.push({ label: "Likely range", value: rangeWords(point.between), color: INTERVAL });
  return <ChartTip title={`Batch ${count(point.batch)}`} rows={rows} />;
}

function rangeWords([low, high]: [number, number]): string {
  return `${perSecond(low)} to ${perSecond(high)}`;
}

interface ThroughputTableProps {
  points: readonly ThroughputPoint[];
  unit: RateUnit;
  thrashing: readonly number[];
}

function ThroughputTable({ points, unit, thrashing }: ThroughputTableProps) {
  return (
    <ScrollTable label="Throughput by batch size">
      <table className="w-full text-xs">
        <caption className="sr-only">Throughput by batch size</caption>
        <thead>
          <tr className="text-right text-soft [&>th]:px-2 [&>th]:py-1 [&>th]:font-medium">
            <th scope="col" className="text-left">
              Batch
            </th>
            <th scope="col">{capitalized(unit)}/s</th>
            <th scope="col">Likely range</th>
          </tr>
        </thead>
        <tbody>
          {points.map((point) => (
            <tr key={point.batch} className="border-t border-line text-right [&>td]:px-2 [&>td]:py-1">
              <th scope="row" className="px-2 text-left font-medium">
                {count(point.batch)}
                {thrashing.includes(point.batch) && <span className="text-warn"> thrashing</span>}
              </th>
              <td>{perSecond(point.speed)}</td>
              <td>{point.between ? rangeWords(point.between) : ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollTable>
  );
}
