import { describe, expect, it } from "vitest";
import { gpuBars } from "../../src/answer/gpu-bars";
import { GIB } from "../../src/shared/format";
import { analysis, changed } from "../data";

const whole = analysis.breakdown!;
const breakdown = { ...whole, gathered_parameters_bytes: GIB, nccl_bytes: GIB / 2 };
const perGpu = {
  batch_size: 16,
  peak_allocated_bytes: 4 * GIB,
  peak_reserved_bytes: 5 * GIB,
  device_bytes: 6 * GIB,
  breakdown,
  samples_per_second: 10,
};

function of(gpus: number, strategy: string | null, layers = 1, nodes = 1) {
  const recipe = { ...analysis.recipe, gpus, nodes };
  return changed({ gpus, strategy, tensor_parallel: layers, per_gpu: perGpu, recipe });
}

const labels = (found: ReturnType<typeof gpuBars>) => found!.parts.map((part) => part.label);

describe("the bars of several GPUs", () => {
  it("are as many as there are GPUs, up to those of a machine", () => {
    expect(gpuBars(of(4, "fsdp"))).toMatchObject({ gpus: 4, shown: 4, batch: 16, alike: true });
    expect(gpuBars(of(64, "fsdp"))).toMatchObject({ gpus: 64, shown: 8 });
    expect(gpuBars(analysis)).toBeNull();
  });

  it("name what is gathered, and the share that each GPU keeps", () => {
    expect(labels(gpuBars(of(8, "fsdp")))).toEqual(
      expect.arrayContaining(["Weights, 1/8 of all", "Gathered parameters", "NCCL"]),
    );
    expect(labels(gpuBars(of(16, "hsdp", 1, 2)))).toContain("Weights, 1/8 of all");
    expect(labels(gpuBars(of(8, null, 8)))).toContain("Weights, 1/8 of each cut layer");
    expect(labels(gpuBars(of(64, "fsdp", 8)))).toContain("Weights, cut over 64 GPUs");
    expect(labels(gpuBars(of(8, "ddp")))).toContain("Weights");
  });

  it("are all alike, but for a share that is dealt out", () => {
    const found = gpuBars(of(8, "zero1"))!;
    expect(found.alike).toBe(false);
    expect(labels(found)).toContain("Optimizer state, a share of it");
  });

  it("have parts as wide as their part of the GPU's memory", () => {
    const gathered = gpuBars(of(8, "fsdp"))!.parts.find((part) => part.name === "gathered_parameters_bytes")!;
    expect(gathered.percent).toBeCloseTo(100 / analysis.gpu_total_gb, 9);
  });
});
