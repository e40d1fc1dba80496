import { useState, type ReactNode } from "react";

export interface LegendEntry {
  label: string;
  color: string;
  shape?: "box" | "line";
}

interface ChartFrameProps {
  /** What the chart shows, for those who do not see it. */
  label: string;
  legend: readonly LegendEntry[];
  isEmpty: boolean;
  emptyText: string;
  /** Made when someone wants to see it. */
  table: () => ReactNode;
  children: ReactNode;
}

/** A chart with its legend above and its numbers as a table below, in a space that never changes. */
export function ChartFrame({ label, legend, isEmpty, emptyText, table, children }: ChartFrameProps) {
  const [hasTable, setHasTable] = useState(false);
  return (
    <div>
      <ul className="mb-3 flex min-h-12 flex-wrap content-start gap-x-4 gap-y-1 text-xs text-soft">
        {legend.map((entry) => (
          <li key={entry.label} className="flex items-center gap-1.5">
            <span
              aria-hidden="true"
              className={entry.shape === "line" ? "h-0 w-4 border-t-2 border-dashed" : "size-2.5 rounded-[2px]"}
              style={entry.shape === "line" ? { borderColor: entry.color } : { background: entry.color }}
            />
            {entry.label}
          </li>
        ))}
      </ul>
      <div role="img" aria-label={isEmpty ? emptyText : label} className="relative h-64 text-xs">
        {children}
        {isEmpty && <p className="absolute inset-0 grid place-items-center px-12 pb-8 text-center text-sm text-faint">{emptyText}</p>}
      </div>
      <details className="mt-3 text-sm" onToggle={(event) => setHasTable(event.currentTarget.open)}>
        <summary className="inline-flex min-h-8 items-center rounded text-xs text-soft underline hover:text-ink">
          Numbers as a table
        </summary>
        {hasTable && <div className="mt-2">{table()}</div>}
      </details>
    </div>
  );
}
