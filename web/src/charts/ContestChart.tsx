import { memo } from "react";
import { CartesianGrid, Line, ComposedChart, ResponsiveContainer, Scatter, Tooltip, XAxis, YAxis } from "recharts";
import { roundTicks } from "./chart-data";
import { dollars, perSecond, short, tick } from "../shared/format";
import { capitalized } from "../shared/text";
import type { RateUnit } from "../shared/rate";
import { ScrollTable } from "../ui/ScrollTable";
import { ChartFrame, type LegendEntry } from "./ChartFrame";
import { ChartTip } from "./ChartTip";
import { AXIS, GRID, rem } from "./look";

const ON_FRONT = "#00ff88";
const OTHER = "#7cc0ff";
const LEGEND: LegendEntry[] = [
  { label: "On the front", color: ON_FRONT },
  { label: "Another is both faster and cheaper", color: OTHER },
];
const COST_LABEL = {
  value: "$ per million samples",
  position: "bottom",
  offset: -2,
  fill: "#b4b4b4",
  fontSize: "0.75rem",
} as const;

/** A case that has a speed and a price. */
export interface ContestPoint {
  number: number;
  name: string;
  /** Dollars for a million samples. */
  cost: number;
  rate: number;
  isOnFront: boolean;
}

interface ContestChartProps {
  /** The cheapest first. */
  points: readonly ContestPoint[];
  unit: RateUnit;
}

/** Speed against money; a line joins what nothing else is both faster and cheaper than. */
export const ContestChart = memo(function ContestChart({ points, unit }: ContestChartProps) {
  const highest = Math.max(...points.map((point) => point.rate)) * 1.05;
  const dearest = Math.max(...points.map((point) => point.cost)) * 1.05;
  const data = points.map((point) => ({
    ...point,
    front: point.isOnFront ? point.rate : null,
    other: point.isOnFront ? null : point.rate,
  }));
  return (
    <ChartFrame
      label={describe(points, unit)}
      legend={LEGEND}
      isEmpty={false}
      emptyText=""
      table={() => <PointTable points={points} unit={unit} />}
    >
      <ResponsiveContainer width="100%" height="100%">
        <ComposedChart
          data={data}
          accessibilityLayer={false}
          margin={{ top: 8, right: rem(1), bottom: rem(1), left: 0 }}
        >
          <CartesianGrid {...GRID} />
          <XAxis
            dataKey="cost"
            type="number"
            {...AXIS}
            domain={[0, dearest]}
            ticks={roundTicks(dearest)}
            tickFormatter={(cost: number) => `$${short(cost, 3)}`}
            height={rem(1.875)}
            label={COST_LABEL}
          />
          <YAxis
            {...AXIS}
            interval={0}
            width={rem(4)}
            domain={[0, highest]}
            ticks={roundTicks(highest)}
            tickFormatter={(rate: number) => tick(rate)}
          />
          <Tooltip
            cursor={{ stroke: "#6f6f6f" }}
            isAnimationActive={false}
            content={({ active, payload }) =>
              active && payload?.[0] ? <PointTip point={payload[0].payload as ContestPoint} unit={unit} /> : null
            }
          />
          <Line
            dataKey="front"
            connectNulls
            dot={false}
            activeDot={false}
            stroke={ON_FRONT}
            strokeWidth={rem(0.1)}
            isAnimationActive={false}
          />
          <Scatter dataKey="other" fill={OTHER} isAnimationActive={false} />
          <Scatter dataKey="front" fill={ON_FRONT} isAnimationActive={false} />
        </ComposedChart>
      </ResponsiveContainer>
    </ChartFrame>
  );
});

function PointTip({ point, unit }: { point: ContestPoint; unit: RateUnit }) {
  const rows = [
    { label: `${capitalized(unit)} per second`, value: perSecond(point.rate) },
    { label: "A million samples", value: dollars(point.cost) },
  ];
  return <ChartTip title={point.name} rows={rows} />;
}

function describe(points: readonly ContestPoint[], unit: RateUnit): string {
  const front = points.filter((point) => point.isOnFront).map((point) => point.name);
  return `Speed in ${unit} per second by cost of a million samples, of ${points.length} cases. On the front: ${front.join("; ")}. The table below has the numbers.`;
}

function PointTable({ points, unit }: ContestChartProps) {
  const caption = `Speed in ${unit} per second and cost of a million samples`;
  return (
    <ScrollTable label={caption}>
      <table className="w-full text-xs">
        <caption className="sr-only">{caption}</caption>
        <thead>
          <tr className="text-right text-soft [&>th]:px-2 [&>th]:py-1 [&>th]:font-medium">
            <th scope="col" className="text-left">
              Case
            </th>
            <th scope="col">{capitalized(unit)} per second</th>
            <th scope="col">$ per million samples</th>
            <th scope="col">On the front</th>
          </tr>
        </thead>
        <tbody>
          {points.map((point) => (
            <tr key={point.number} className="border-t border-line text-right [&>td]:px-2 [&>td]:py-1">
              <th scope="row" className="px-2 text-left font-medium">
                {point.name}
              </th>
              <td>{perSecond(point.rate)}</td>
              <td>{dollars(point.cost)}</td>
              <td>{point.isOnFront ? "yes" : "no"}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollTable>
  );
}
