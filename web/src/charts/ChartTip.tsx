import type { ReactNode } from "react";

export interface TipRow {
  label: string;
  value: string;
  color?: string;
}

/** What stands at the pointer. */
export function ChartTip({ title, rows, children }: { title: string; rows: readonly TipRow[]; children?: ReactNode }) {
  return (
    <div className="rounded-lg border border-edge bg-black px-3 py-2 text-xs shadow-xl">
      <p className="mb-1 font-semibold">{title}</p>
      <table>
        <tbody>
          {rows.map((row) => (
            <tr key={row.label}>
              <td className="pr-3 text-soft">
                <span
                  className="mr-1.5 inline-block size-2 rounded-[2px]"
                  style={{ background: row.color ?? "transparent" }}
                />
                {row.label}
              </td>
              <td className="text-right">{row.value}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {children}
    </div>
  );
}
