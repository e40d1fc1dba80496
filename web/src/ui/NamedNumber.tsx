export interface NamedNumberProps {
  name: string;
  value: string;
  isStrong?: boolean;
}

/** A number with what it is below it. */
export function NamedNumber({ name, value, isStrong = false }: NamedNumberProps) {
  return (
    <span className="block text-sm tabular-nums">
      <span className={`block ${isStrong ? "font-semibold text-accent" : ""}`}>{value}</span>
      <span className="block text-xs text-faint">{name}</span>
    </span>
  );
}
