import type { Analysis } from "../api/types";
import { link } from "../shared/route";
import { SourceBadge } from "../ui/Badge";
import { CloseIcon } from "../ui/icons";
import { ScrollTable } from "../ui/ScrollTable";
import { comparisonRows, incomparableWords } from "./comparison-rows";

export interface Column {
  id: string;
  name: string;
  recipe: string;
  analysis: Analysis;
}

interface SideBySideProps {
  columns: readonly Column[];
  onRemove: (id: string) => void;
}

/** A column for each result, a row for each number. */
export function SideBySide({ columns, onRemove }: SideBySideProps) {
  const rows = comparisonRows(columns);
  const incomparable = incomparableWords(columns.map((column) => column.analysis));
  const isMixed = new Set(columns.map((column) => column.analysis.source)).size > 1;
  return (
    <div className="card p-5 sm:p-6">
      <ScrollTable label="Results side by side">
        <table className="w-full text-sm">
          <caption className="sr-only">Results side by side</caption>
          <thead>
            <tr>
              <th scope="col" className="sticky left-0 z-10 w-28 min-w-24 bg-card pr-3 text-left sm:w-48">
                <span className="sr-only">Number</span>
              </th>
              {columns.map((column) => (
                <th
                  key={column.id}
                  scope="col"
                  className="min-w-32 px-2 pb-4 sm:min-w-48 sm:px-3 text-left align-top font-normal"
                >
                  <span className="flex items-start justify-between gap-2">
                    <a
                      href={link.job(column.id)}
                      className="text-base font-semibold underline decoration-edge underline-offset-4 hover:decoration-accent"
                    >
                      {column.name}
                    </a>
                    <button
                      type="button"
                      aria-label={`Remove ${column.name}`}
                      onClick={() => onRemove(column.id)}
                      className="-mt-1 grid size-8 shrink-0 place-items-center rounded-lg text-soft hover:bg-raised hover:text-ink"
                    >
                      <CloseIcon className="size-4" />
                    </button>
                  </span>
                  <SourceBadge source={column.analysis.source} />
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row) => (
              <tr key={row.name} className="border-t border-line">
                <th scope="row" className="sticky left-0 z-10 bg-card py-2.5 pr-4 text-left font-normal text-soft">
                  {row.name}
                </th>
                {row.cells.map((cell, index) => (
                  <td key={columns[index]!.id} className="px-2 py-2.5 align-top sm:px-3">
                    <span className={row.best === index ? "font-semibold text-accent" : ""}>{cell.text}</span>
                    {row.best === index && <span className="sr-only"> (best)</span>}
                    {cell.share !== null && (
                      <span aria-hidden="true" className="mt-1.5 block h-1.5 max-w-56 rounded-full bg-raised">
                        <span
                          className={`block h-full rounded-full ${row.best === index ? "bg-accent" : "bg-faint"}`}
                          style={{ width: `${100 * cell.share}%` }}
                        />
                      </span>
                    )}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </ScrollTable>
      {incomparable && <p className="mt-4 text-sm text-warn">{incomparable}</p>}
      {isMixed && <p className="mt-4 text-sm text-warn">This table mixes measured and predicted numbers.</p>}
    </div>
  );
}
