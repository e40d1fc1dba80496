// The GPUs to choose from, and what to say about an unknown name.
import type { Gpu, Health } from "../api/types";
import { bytes, shortGpuName } from "../shared/format";
import { exactly, nearest, type Entry } from "../ui/entries";
import type { FieldFault } from "./faults";

/** The GPU of the server, on which trainings are measured. */
export const HERE = "here";
/** A device of the server by torch's name. */
export const DEVICE = /^(cpu|mps|cuda(:\d{1,3})?)$/;

const MEASURED = "Here: measured";
const PREDICTED: Record<Gpu["segment"], string> = {
  datacenter: "Datacenter: predicted",
  workstation: "Workstation: predicted",
  desktop: "Desktop: predicted",
};

/** The GPU to begin with: the server's, else the catalog's default, else the first. */
export function defaultGpu(gpus: readonly Gpu[], health: Health | undefined): string {
  if (health?.gpu_available) return HERE;
  return gpus.find((gpu) => gpu.default)?.id ?? gpus[0]?.id ?? "";
}

export function isMeasured(gpu: string): boolean {
  return gpu === HERE || DEVICE.test(gpu);
}

/** The server's GPU first, to measure on; then those of the catalog, to predict for. */
export function gpuEntries(gpus: readonly Gpu[], health: Health | undefined): Entry[] {
  const here: Entry[] = health?.gpu_available
    ? [
        {
          value: HERE,
          label: health.gpu_name ?? "The GPU of this server",
          detail: health.gpu_memory_total_gb ? `${health.gpu_memory_total_gb.toFixed(0)} GiB` : undefined,
          group: MEASURED,
          aliases: gpus.filter((gpu) => gpu.here).flatMap((gpu) => [gpu.id, gpu.name]),
        },
      ]
    : [];
  const others = gpus
    .filter((gpu) => !(gpu.here && health?.gpu_available))
    .map((gpu) => ({
      value: gpu.id,
      label: gpu.name,
      detail: [bytes(gpu.memory_bytes, 0), ...detailsOf(gpu)].join(" · "),
      group: PREDICTED[gpu.segment],
      aliases: [shortGpuName(gpu.name)],
    }));
  return [...here, ...others];
}

function detailsOf({ memory_only: isMemoryOnly, price }: Gpu): string[] {
  if (isMemoryOnly) return ["memory only"];
  return price ? [`$${price.usd_per_hour.toFixed(2)}/h`] : [];
}

/** A device of the server by torch's name. */
export function otherDevice(text: string): Entry | null {
  return DEVICE.test(text) ? { value: text, label: text, group: MEASURED } : null;
}

/** What is wrong with the name of a GPU; null if it is known or empty. */
export function wrongGpu(entries: readonly Entry[], text: string): FieldFault | null {
  const asked = text.trim();
  if (asked === "" || entries.length === 0 || exactly(entries, asked) || otherDevice(asked)) return null;
  return {
    text: asked === HERE ? "This server has no GPU to measure on." : `No GPU is called “${asked}”.`,
    suggestions: nearest(entries, asked).map(({ value, label }) => ({ label, change: { gpu: value } })),
    isGuess: true,
  };
}
