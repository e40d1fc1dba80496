import type { Analysis } from "../api/types";
import { bytes, count } from "../shared/format";
import { Card } from "../ui/Card";
import { gpuBars, type HeldPart } from "./gpu-bars";

/** A bar for each of several GPUs, with what it holds of the model and what it gathers. */
export function GpuBarsCard({ analysis }: { analysis: Analysis }) {
  const bars = gpuBars(analysis);
  if (!bars) return null;
  const { gpus, shown, parts, batch, alike } = bars;
  const note = alike
    ? `All ${count(gpus)} GPUs hold the same at batch ${count(batch)}.`
    : `The first GPU holds the most at batch ${count(batch)}; the others have less of the optimizer's state.`;
  return (
    <Card title={`Memory of each of the ${count(gpus)} GPUs`} note={note}>
      <div aria-hidden="true" className="mb-4 space-y-1">
        {Array.from({ length: shown }, (_, index) => (
          <div key={index} className="flex items-center gap-3 text-sm text-soft tabular-nums">
            <span className="w-12 shrink-0">GPU {index}</span>
            <Bar parts={parts} />
          </div>
        ))}
        {gpus > shown && <p className="text-sm text-soft">and {count(gpus - shown)} more like these</p>}
      </div>
      <ul className="grid grid-cols-1 gap-x-6 text-sm sm:grid-cols-2">
        {parts.map((part) => (
          <li key={part.name} className="flex justify-between gap-3 border-b border-line py-1.5">
            <span>
              <span
                aria-hidden="true"
                className="mr-2 inline-block size-2.5 rounded-[2px]"
                style={{ background: part.color }}
              />
              {part.label}
            </span>
            <span className="whitespace-nowrap tabular-nums">{bytes(part.bytes)}</span>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function Bar({ parts }: { parts: HeldPart[] }) {
  return (
    <div className="flex h-4 grow gap-px overflow-hidden rounded bg-raised">
      {parts.map((part) => (
        <div key={part.name} style={{ width: `${part.percent}%`, background: part.color }} />
      ))}
    </div>
  );
}
