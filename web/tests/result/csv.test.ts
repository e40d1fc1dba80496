import { describe, expect, it } from "vitest";
import { trialsCsv } from "../../src/answer/csv";
import type { Comparison } from "../../src/api/types";
import { gpusCsv } from "../../src/gpus/csv";
import { csv } from "../../src/result/csv";
import { analysis } from "../data";

describe("CSV", () => {
  it("has a line for each trial in the order it ran", () => {
    const [header, ...rows] = trialsCsv(analysis.trials).trimEnd().split("\r\n");
    expect(header).toContain("batch_size,fits,source");
    expect(rows).toHaveLength(analysis.trials.length);
    expect(rows.map((row) => Number(row.split(",")[0]))).toEqual(analysis.trials.map((trial) => trial.batch_size));
  });

  it("has as many fields in every line", () => {
    const lines = trialsCsv(analysis.trials.filter((trial) => trial.fits))
      .trimEnd()
      .split("\r\n");
    expect(new Set(lines.map((line) => line.split(",").length)).size).toBe(1);
  });

  it("quotes what would break a line", () => {
    expect(csv([["a,b", 'say "x"', "two\nlines", null, undefined, true, 1.5]])).toBe(
      '"a,b","say ""x""","two\nlines",,,true,1.5\r\n',
    );
  });

  it("does not let text run as a formula, and leaves negative numbers alone", () => {
    expect(csv([["=1+1", -1]])).toBe("'=1+1,-1\r\n");
  });

  it("has a line for each GPU", () => {
    const none = {
      max_batch_interval: null,
      recommended_batch_size: null,
      samples_per_second: null,
      usd_per_million_samples: null,
    };
    const gpus = [{ gpu: "t4", gpu_name: "NVIDIA T4", fits: false, max_batch_size: null, price: null, ...none }];
    expect(gpusCsv({ gpus } as unknown as Comparison)).toContain("t4,NVIDIA T4,false,,,,,,,,\r\n");
  });
});
