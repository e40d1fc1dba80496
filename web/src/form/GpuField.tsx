import type { Gpu, Health } from "../api/types";
import { useGpus, useHealth } from "../hooks/queries";
import { HERE, isMeasured } from "../logic/draft";
import { bytes } from "../logic/format";
import { Combobox, type Option } from "../ui/Combobox";

interface GpuFieldProps {
  value: string;
  onChange: (gpu: string) => void;
}

export function GpuField({ value, onChange }: GpuFieldProps) {
  const { data: gpus = [] } = useGpus();
  const { data: health } = useHealth();
  return (
    <Combobox
      label="GPU"
      options={gpuOptions(gpus, health)}
      value={value}
      onChange={onChange}
      hint={
        !value
          ? "\u00a0"
          : isMeasured(value)
            ? "Measured: real training steps on the server's GPU."
            : "Predicted: the server has no such GPU, so nothing runs on one."
      }
      nothing={(typed) => `No GPU matches “${typed}”.`}
    />
  );
}

/** The server's GPU first, to measure on; then those of the catalog, to predict for. */
function gpuOptions(gpus: readonly Gpu[], health: Health | undefined): Option[] {
  const here: Option[] = health?.gpu_available
    ? [
        {
          value: HERE,
          label: health.gpu_name ?? "The GPU of this server",
          detail: health.gpu_memory_total_gb ? `${health.gpu_memory_total_gb.toFixed(0)} GiB` : undefined,
          group: "Here: measured",
        },
      ]
    : [];
  const others = gpus
    .filter((gpu) => !(gpu.here && health?.gpu_available))
    .map((gpu) => ({
      value: gpu.id,
      label: gpu.name,
      detail: `${bytes(gpu.memory_bytes, 0)}${gpu.price ? ` · $${gpu.price.usd_per_hour.toFixed(2)}/h` : ""}`,
      group: "Elsewhere: predicted",
      keywords: gpu.id,
    }));
  return [...here, ...others];
}
