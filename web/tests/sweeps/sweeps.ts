// Sweeps made by hand.
import type { GridSweep, SweepAxis, SweepCase } from "../../src/api/types";

export const AXES: SweepAxis[] = [
  { name: "model", title: "Model", in_words: true, values: [named("bert", "BERT base"), named("gpt2", "GPT-2")] },
  { name: "gpu", title: "GPU", in_words: true, values: [named("a10", "NVIDIA A10"), named("h100", "NVIDIA H100")] },
  { name: "margin", title: "Margin", in_words: false, values: [named(0.05), named(0.1), named(null, "not set")] },
];

function named(value: unknown, label = String(value)) {
  return { value, label };
}

interface Facts {
  options?: Record<string, unknown>;
  state?: SweepCase["state"];
  speed?: number | null;
  cost?: number | null;
  batch?: number | null;
  error?: string | null;
}

export function sweepCase(number: number, facts: Facts = {}): SweepCase {
  const { options = { model: "bert", gpu: "a10" }, state = "done", speed = null, cost = null, batch = null } = facts;
  return {
    state,
    number,
    options,
    model_name: options["model"] === "gpt2" ? "GPT-2" : "BERT base",
    recipe: "fp32, AdamW",
    sample: "128 tokens",
    gpu: String(options["gpu"]),
    gpu_name: `NVIDIA ${String(options["gpu"]).toUpperCase()}`,
    source: state === "done" ? "predicted" : null,
    max_batch_size: batch,
    max_batch_interval: null,
    batch_size: batch,
    keeps_margin: batch === null ? null : true,
    samples_per_second: speed,
    samples_per_second_interval: null,
    tokens_per_second: speed && speed * 128,
    step_seconds: null,
    price: null,
    whole_run: null,
    usd_per_million_samples: cost,
    usd_per_million_samples_interval: null,
    job: state === "waiting" ? null : "abcabcabcabc",
    is_new: true,
    error: facts.error ?? null,
    error_code: null,
  };
}

export function sweep(facts: Partial<GridSweep> = {}): GridSweep {
  return {
    state: "running",
    seconds_left: null,
    started_at: "2026-11-19T20:00:00.000+00:00",
    finished_at: null,
    id: "abcabcabcabc",
    source: "sweep.yaml",
    axes: AXES,
    total: 2,
    done: 0,
    failed: 0,
    reused: 0,
    change: 2,
    cases: [],
    upto: 2,
    more: false,
    groups: null,
    ...facts,
  };
}
