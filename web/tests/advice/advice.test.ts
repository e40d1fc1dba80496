import { describe, expect, it } from "vitest";
import { batchNotes, batchWords, changeWords, mostGain, predictedBeside } from "../../src/advice/advice";
import { optionsCsv } from "../../src/advice/csv";
import { adviceDetail, adviceHeadline } from "../../src/advice/headline";
import type { Advice, AdviceOption, JobEvent } from "../../src/api/types";
import { NOTHING_YET, advance, adviceWords, fractionAdvised } from "../../src/events/job-progress";
import { snippets } from "../../src/result/code-snippets";
import { sentenceOf } from "../../src/result/headline";
import { gain } from "../../src/shared/format";
import { advice } from "../data";

const [best, , , , onlyBatch] = advice.options as [AdviceOption, ...AdviceOption[]];
const measured = (option: AdviceOption): AdviceOption => ({ ...option, measured: option.predicted, source: "measured", gain: 2.8 });
const doesNotFit: Advice = {
  ...advice,
  verdict: "The least change that makes it fit: LoRA rank 16, batch 4 x 4 accumulation steps.",
  fits_today: false,
  today: { predicted: null, measured: null, usd_per_million_samples: null, whole_run: null },
  options: advice.options.map((option) => ({ ...option, gain: null, predicted_gain: null, cost_savings_annual: null })),
};
const withGains = (...gains: number[]): Advice => ({
  ...advice,
  worth_changing: false,
  options: gains.map((value) => ({ ...best, gain: value })),
});

describe("an option in words", () => {
  it("names what changes, and its batch apart from that", () => {
    expect(changeWords(best)).toBe("bf16 autocast, fused optimizer");
    expect(changeWords(onlyBatch!)).toBe("another batch size");
    expect(changeWords({ ...best, seq_len: 64, costs: [{ change: "shorter samples", cost: "", slower: null, host_bytes: null }] })).toBe(
      "shorter samples of 64 tokens",
    );
    expect(batchWords(best.batch_size, best)).toBe("316");
    expect(batchWords(8, { accumulation_steps: 2 })).toBe("8 x 2");
  });
  it("has the predicted gain beside a measured one only", () => {
    expect(predictedBeside(best)).toBeNull();
    expect(predictedBeside(measured(best))).toBe(best.predicted_gain);
  });
  it("says what is left of the gain with today's batch, where the batch is another", () => {
    expect(batchNotes(advice, best)).toEqual([
      best.learning_rate,
      "With today's batch of 16 the same change runs at 1.91x today's speed, predicted.",
    ]);
    expect(batchNotes(advice, { ...best, batch_size: 8, accumulation_steps: 2 })).toHaveLength(1);
    expect(batchNotes(doesNotFit, best)).toHaveLength(1);
  });
  it("comes with code for three libraries", () => {
    const all = snippets(best.code);
    expect(all.map((snippet) => snippet.name)).toEqual(["PyTorch", "Transformers", "Lightning"]);
    for (const { code } of all) expect(code).toMatch(/batch_size ?= ?316\b/i);
  });
  it("shows a small gain as one", () => {
    expect([1, 3.02, 1.04, 0.97, 0.5].map(gain)).toEqual(["1.00x", "3.02x", "1.04x", "0.970x", "0.500x"]);
    expect(mostGain(withGains(0.8, 0.9))).toBe(1);
  });
});

describe("the headline of an advice", () => {
  it("says the same as the service's verdict", () => {
    expect(adviceHeadline(advice)).toMatchObject({ strong: "3.02x faster", tone: "good" });
    expect(`${sentenceOf(adviceHeadline(advice))}.`).toBe(advice.verdict);
    expect(adviceDetail(advice)).toBe("Predicted for the NVIDIA A10; nothing was run on one.");
  });
  it("says how many ways ran", () => {
    const [first, ...rest] = advice.options;
    expect(adviceDetail({ ...advice, options: [measured(first!), ...rest] })).toBe(
      "1 of 5 ways ran on the NVIDIA A10; the others are predicted.",
    );
  });
  it("says that today's training does not fit", () => {
    expect(sentenceOf(adviceHeadline(doesNotFit))).toMatch(/^The least change that makes it fit/);
    expect(adviceDetail(doesNotFit)).toMatch(/^Today's training does not fit\. Predicted/);
  });
  it("is calm where nothing is worth changing, and says why", () => {
    expect(adviceHeadline(withGains(1.03))).toEqual({ lead: "Nothing is worth changing", tone: "neutral" });
    expect(adviceDetail(withGains(1.03, 0.8))).toMatch(/^The best of 2 other ways to train gains 3 %, no more than/);
    expect(adviceDetail(withGains(0.5))).toMatch(/^No other way to train is faster than today's\./);
    expect(adviceDetail(withGains())).toMatch(/^No other way to train is faster than today's\./);
  });
});

describe("the progress of an advice", () => {
  const at = "2026-11-15T12:00:00Z";
  const stage = (id: number, name: string): JobEvent => ({ id, event: "stage", at, data: { stage: name, message: "" } });
  const running = advance(NOTHING_YET, [{ id: 1, event: "state", at, data: { state: "running" } }]);
  const now = Date.parse(at);
  it("grows with every way that is tried and with time, and never reaches the end by itself", () => {
    let progress = running;
    let before = fractionAdvised(progress, now);
    expect(before).toBe(0);
    for (let id = 2; id < 30; id += 1) {
      progress = advance(progress, [stage(id, id < 20 ? "advise" : "confirm")]);
      expect(fractionAdvised(progress, now)).toBeGreaterThanOrEqual(before);
      before = fractionAdvised(progress, now + 3000);
      expect(before).toBeGreaterThan(fractionAdvised(progress, now));
    }
    expect(before).toBeLessThan(1);
    expect(fractionAdvised({ ...progress, state: "done" }, now)).toBe(1);
    expect(fractionAdvised(NOTHING_YET, now)).toBe(0);
  });
  it("is told in words", () => {
    const looked = (count: number) => advance(running, Array.from({ length: count }, (_, id) => stage(id, "advise")));
    expect([0, 2, 4].map((count) => adviceWords(looked(count)))).toEqual([
      "0 ways to train checked",
      "1 way to train checked",
      "3 ways to train checked",
    ]);
    expect(adviceWords(advance(running, [stage(2, "confirm")]))).toBe("Measuring the best ways on the GPU");
  });
});

describe("an advice as a table", () => {
  it("has a line for each way", () => {
    const [header, ...rows] = optionsCsv(advice).trimEnd().split("\r\n");
    expect(header).toMatch(/^title,source,gain/);
    expect(rows).toHaveLength(advice.options.length);
    expect(rows[0]).toContain('"bf16 autocast, fused optimizer, batch 316",predicted,3.02');
  });
});
