import * as RadixSlider from "@radix-ui/react-slider";
import { useId, useState } from "react";
import { short } from "../shared/format";
import { fromPosition, POSITIONS, toPosition } from "./slider-scale";

interface SliderFieldProps {
  label: string;
  unit: string;
  range: readonly [number, number];
  value: number;
  isWhole?: boolean;
  onChange: (value: number) => void;
}

/** A number to slide or to type. The slider is logarithmic; what is typed may lie beyond it. */
export function SliderField({ label, unit, range, value, isWhole = false, onChange }: SliderFieldProps) {
  const id = useId();
  const [typed, setTyped] = useState<string | null>(null);
  const type = (text: string) => {
    setTyped(text);
    const number = Number(text.replaceAll(",", ""));
    if (text.trim() !== "" && number > 0 && Number.isFinite(number))
      onChange(isWhole ? Math.max(Math.round(number), 1) : number);
  };
  return (
    <div>
      <label htmlFor={id} className="text-sm font-medium">
        {label}
      </label>
      <div className="mt-1 flex items-center gap-4">
        <RadixSlider.Root
          min={0}
          max={POSITIONS}
          step={1}
          value={[toPosition(value, range)]}
          onValueChange={([position = 0]) => onChange(fromPosition(position, range, isWhole))}
          className="relative flex print:hidden h-6 min-w-0 grow touch-none items-center select-none"
        >
          <RadixSlider.Track className="relative h-1.5 grow rounded-full bg-raised">
            <RadixSlider.Range className="absolute h-full rounded-full bg-accent" />
          </RadixSlider.Track>
          <RadixSlider.Thumb
            aria-label={label}
            aria-valuetext={`${short(value)} ${unit}`}
            className="block size-5 rounded-full border-2 border-page bg-accent"
          />
        </RadixSlider.Root>
        <span className="relative shrink-0">
          <input
            id={id}
            inputMode="decimal"
            autoComplete="off"
            value={typed ?? short(value)}
            onChange={(event) => type(event.target.value)}
            onBlur={() => setTyped(null)}
            className="field min-h-10 w-32 pr-16 text-sm tabular-nums"
          />
          <span
            aria-hidden="true"
            className="pointer-events-none absolute inset-y-0 right-3 flex items-center text-xs text-faint"
          >
            {unit}
          </span>
        </span>
      </div>
    </div>
  );
}
