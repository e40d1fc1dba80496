import type { Analysis } from "../api/types";

/** Whether numbers come from steps that ran, and on what. */
export function sourceWords({ source, gpu_name: gpu, info }: Pick<Analysis, "source" | "gpu_name" | "info">): string {
  if (source === "predicted") return `Predicted for the ${gpu}; nothing was run on one.`;
  return `Measured on ${info.device_kind === "cpu" ? "the server's CPU" : `the ${gpu}`}.`;
}
