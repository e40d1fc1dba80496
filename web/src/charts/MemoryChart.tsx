import { memo } from "react";
import { Bar, BarChart, CartesianGrid, ReferenceLine, ResponsiveContainer, Tooltip, XAxis, YAxis } from "recharts";
import { PARTS, isFailed, partsShown, roundTicks, stacked, thinned, type MemoryColumn, type Part } from "./chart-data";
import { count, short } from "../shared/format";
import { ScrollTable } from "../ui/ScrollTable";
import { ChartFrame, type LegendEntry } from "./ChartFrame";
import { ChartTip } from "./ChartTip";
import { AXIS, BATCH_LABEL, GRID, rem } from "./look";

const MOST_COLUMNS = 14;
const WHOLE = { label: "Not broken down yet", color: "#8296a8" };
const FAILED = { label: "Does not fit", color: "#ff4444" };
const REFUSED = { label: "Exceeds a launch limit", color: "#f5b83d" };

interface MemoryChartProps {
  columns: readonly MemoryColumn[];
  /** The GiB available. */
  limit: number | null;
  /** While trials still arrive, the legend holds all that may come, so that nothing moves. */
  isGrowing?: boolean;
}

/** Memory by batch size, stacked by part, against what is available. */
export const MemoryChart = memo(function MemoryChart({
  columns,
  limit,
  isGrowing = false,
}: MemoryChartProps) {
  const shown = thinned(columns, MOST_COLUMNS);
  const parts = isGrowing ? PARTS.filter((part) => part.name !== "other_processes_bytes") : partsShown(shown);
  const top = Math.max(limit ?? 0, ...shown.map((column) => column.total), 1) * 1.04;
  return (
    <ChartFrame
      label={describe(columns, limit)}
      legend={legendOf(shown, parts, limit, isGrowing)}
      isEmpty={columns.length === 0}
      emptyText="A column for each batch size, as soon as it has been tried"
      table={() => <MemoryTable columns={columns} parts={parts} />}
    >
      <ResponsiveContainer width="100%" height="100%">
        <BarChart
          data={shown}
          accessibilityLayer={false}
          barCategoryGap="18%"
          margin={{ top: 4, right: 4, bottom: rem(1), left: 0 }}
        >
          <CartesianGrid {...GRID} />
          <XAxis
            dataKey="batch"
            {...AXIS}
            tickFormatter={count}
            height={rem(1.875)}
            label={BATCH_LABEL}
          />
          <YAxis
            {...AXIS}
            interval={0}
            width={rem(2.25)}
            domain={[0, top]}
            ticks={roundTicks(top)}
            tickFormatter={(size: number) => short(size)}
          />
          <Tooltip
            cursor={{ fill: "#ffffff10" }}
            isAnimationActive={false}
            content={({ active, payload }) =>
              active && payload?.[0] ? <ColumnTip column={payload[0].payload as MemoryColumn} parts={parts} /> : null
            }
          />
          <Bar dataKey="total" shape={Column} isAnimationActive={false} />
          {limit !== null && <ReferenceLine y={limit} stroke="#f2f2f2" strokeDasharray="6 4" strokeWidth={rem(0.1)} />}
        </BarChart>
      </ResponsiveContainer>
    </ChartFrame>
  );
});

interface ColumnProps {
  x?: number;
  y?: number;
  width?: number;
  height?: number;
  payload?: MemoryColumn;
}

/** A column with its parts. One bar drawn by hand is many times faster than a stack of bars, and trials keep coming. */
function Column({ x = 0, y = 0, width = 0, height = 0, payload }: ColumnProps) {
  if (!payload || payload.total <= 0) return null;
  if (isFailed(payload)) {
    const { color } = payload.refused === undefined ? FAILED : REFUSED;
    return <rect x={x} y={y} width={width} height={height} fill={color} fillOpacity={0.35} stroke={color} />;
  }
  if (payload.whole !== undefined) return <rect x={x} y={y} width={width} height={height} fill={WHOLE.color} />;
  const scale = height / payload.total;
  return (
    <g stroke="#1a1a1a" strokeWidth={0.75}>
      {stacked(payload).map(({ part, from, to }) => (
        <rect
          key={part.name}
          x={x}
          y={y + height - to * scale}
          width={width}
          height={(to - from) * scale}
          fill={part.color}
        />
      ))}
    </g>
  );
}

function legendOf(
  columns: readonly MemoryColumn[],
  parts: readonly Part[],
  limit: number | null,
  hasAll: boolean,
) {
  const legend: LegendEntry[] = [...parts];
  if (hasAll || columns.some((column) => column.whole !== undefined)) legend.push(WHOLE);
  if (hasAll || columns.some((column) => column.failed !== undefined)) legend.push(FAILED);
  if (columns.some((column) => column.refused !== undefined)) legend.push(REFUSED);
  const size = limit === null ? "…" : `${limit.toFixed(1)} GiB`;
  if (hasAll || limit !== null) legend.push({ label: `Available: ${size}`, color: "#f2f2f2", shape: "line" });
  return legend;
}

function describe(columns: readonly MemoryColumn[], limit: number | null): string {
  const fits = columns.filter((column) => !isFailed(column));
  const [first, last] = [fits[0], fits.at(-1)];
  if (!first || !last) return "No batch size fits yet.";
  const against = limit === null ? "" : ` ${limit.toFixed(1)} GiB are available.`;
  return `Memory by batch size: from ${first.total.toFixed(1)} GiB at batch ${first.batch} to ${last.total.toFixed(1)} GiB at batch ${last.batch}.${against} The table below has the numbers.`;
}

function ColumnTip({ column, parts }: { column: MemoryColumn; parts: readonly Part[] }) {
  const rows = parts
    .filter((part) => (column[part.name] ?? 0) > 0)
    .map((part) => ({ label: part.label, color: part.color, value: gib(column[part.name]) }))
    .reverse();
  const all = column.failed !== undefined ? "Needs at least" : column.refused !== undefined ? "Reached" : "Total";
  const value = gib(column.failed ?? column.total);
  return <ChartTip title={`Batch ${count(column.batch)}`} rows={[...rows, { label: all, value }]} />;
}

function MemoryTable({ columns, parts }: { columns: readonly MemoryColumn[]; parts: readonly Part[] }) {
  return (
    <ScrollTable label="Memory by batch size in GiB">
      <table className="w-full text-xs">
        <caption className="sr-only">Memory by batch size in GiB</caption>
        <thead>
          <tr className="text-right text-soft [&>th]:px-2 [&>th]:py-1 [&>th]:font-medium">
            <th scope="col" className="text-left">
              Batch
            </th>
            {parts.map((part) => (
              <th key={part.name} scope="col">
                {part.label}
              </th>
            ))}
            <th scope="col">Total, GiB</th>
          </tr>
        </thead>
        <tbody>
          {columns.map((column) => (
            <tr key={column.batch} className="border-t border-line text-right [&>td]:px-2 [&>td]:py-1">
              <th scope="row" className="px-2 text-left font-medium">
                {count(column.batch)}
              </th>
              {parts.map((part) => (
                <td key={part.name}>{column[part.name]?.toFixed(2) ?? ""}</td>
              ))}
              <td>{isFailed(column) ? "does not fit" : column.total.toFixed(2)}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </ScrollTable>
  );
}

function gib(value: number | undefined): string {
  return `${(value ?? 0).toFixed(2)} GiB`;
}
