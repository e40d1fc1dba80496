interface BarCellProps {
  value: number | null;
  most: number;
  words: (value: number) => string;
  color: string;
  nothing: string;
}

/** A number of a table with its part of the largest one. */
export function BarCell({ value, most, words, color, nothing }: BarCellProps) {
  if (value === null) return <span className="text-faint">{nothing}</span>;
  return (
    <span className="flex items-center gap-3">
      <span className="min-w-20 shrink-0 text-right whitespace-nowrap tabular-nums">{words(value)}</span>
      <span aria-hidden="true" className="h-2 grow rounded-full bg-raised">
        <span
          className={`block h-full rounded-full ${color}`}
          style={{ width: `${most > 0 ? (100 * value) / most : 0}%` }}
        />
      </span>
    </span>
  );
}
