interface ProgressBarProps {
  /** From 0 to 1. */
  value: number;
  text: string;
}

export function ProgressBar({ value, text }: ProgressBarProps) {
  const percent = Math.round(100 * value);
  return (
    <div
      role="progressbar"
      aria-label="Progress"
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
      aria-valuetext={text}
      className="h-2.5 overflow-hidden rounded-full bg-raised"
    >
      <div
        className="h-full w-full origin-left rounded-full bg-accent transition-transform duration-500 ease-out"
        style={{ transform: `scaleX(${value})` }}
      />
    </div>
  );
}
