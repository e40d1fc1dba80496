import { describe, expect, it } from "vitest";
import type { Advice, AdviceOption, JobEvent, JobSummary } from "../src/api/types";
import { batchNotes, batchWords, changeWords, mostGain, predictedBeside } from "../src/logic/advice";
import { snippets } from "../src/logic/code-snippets";
import { optionsCsv } from "../src/logic/csv";
import { FIRST_DRAFT, adviceOn, adviseBody, draftErrors } from "../src/logic/draft";
import { gain } from "../src/logic/format";
import { adviceDetail, adviceHeadline } from "../src/logic/headline";
import { NOTHING_YET, advance, adviceWords, fractionAdvised } from "../src/logic/job-progress";
import { sampleShape } from "../src/logic/sample";
import { askedWords, isComparable, summaryWords } from "../src/logic/summary";
import { advice, bert, question } from "./data";

const [best, , , , onlyBatch] = advice.options as [AdviceOption, ...AdviceOption[]];
const measured = (option: AdviceOption): AdviceOption => ({ ...option, measured: option.predicted, source: "measured", gain: 2.8 });
const doesNotFit: Advice = {
  ...advice,
  verdict: "The least change that makes it fit: LoRA rank 16, batch 4 x 4 accumulation steps.",
  fits_today: false,
  today: { predicted: null, measured: null, usd_per_million_samples: null },
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
    expect(changeWords({ ...best, seq_len: 64, costs: [{ change: "shorter samples", cost: "" }] })).toBe(
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
      "With today's batch of 16 the same change runs at 1.9x today's speed, predicted.",
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
    expect([1, 3.02, 1.04, 0.97, 0.5].map(gain)).toEqual(["1.0x", "3.0x", "1.04x", "0.97x", "0.5x"]);
    expect(mostGain(withGains(0.8, 0.9))).toBe(1);
  });
});

describe("the headline of an advice", () => {
  it("is the verdict", () => {
    expect(adviceHeadline(advice)).toMatchObject({ tone: "good" });
    expect(adviceHeadline(advice).sentence).toBe(advice.verdict.replace(/\.$/, ""));
    expect(adviceDetail(advice)).toBe("Predicted for the NVIDIA A10; nothing ran on one.");
  });
  it("says how many ways ran", () => {
    const [first, ...rest] = advice.options;
    expect(adviceDetail({ ...advice, options: [measured(first!), ...rest] })).toBe(
      "1 of 5 ways ran on the NVIDIA A10; the others are predicted.",
    );
  });
  it("says that today's training does not fit", () => {
    expect(adviceHeadline(doesNotFit).sentence).toMatch(/^The least change that makes it fit/);
    expect(adviceDetail(doesNotFit)).toMatch(/^Today's training does not fit\. Predicted/);
  });
  it("is calm where nothing is worth changing, and says why", () => {
    expect(adviceHeadline(withGains(1.03))).toEqual({ sentence: "Nothing is worth changing", tone: "neutral" });
    expect(adviceDetail(withGains(1.03, 0.8))).toMatch(/^The best of 2 other ways to train gains 3 %, which is within/);
    expect(adviceDetail(withGains(0.5))).toMatch(/^No other way to train is faster than today's\./);
    expect(adviceDetail(withGains())).toMatch(/^No other way to train is faster than today's\./);
  });
});

describe("asking what to change", () => {
  const shape = sampleShape(FIRST_DRAFT, bert, []);
  it("sends the form with advise, for one length", () => {
    const draft = { ...FIRST_DRAFT, gpu: "a10" };
    expect(adviseBody(draft, shape)).toMatchObject({ model_name: "bert", gpu: "a10", batch_size: 16, advise: true });
    expect(draftErrors({ ...draft, sampleSize: "128, 256" }, shape, true)).toHaveProperty("sampleSize");
  });
  it("asks about the training of an answer, or of a part of it", () => {
    expect(adviceOn(question)).toMatchObject({ advise: true, gpu: "a10", batch_size: 16 });
    const part = { ...question.request, seq_len: 512, target: { ...question.request.target, gpu: "h100" } };
    expect(adviceOn({ ...question, all_gpus: true, seq_lens: [128, 512] }, part)).toMatchObject({
      advise: true,
      all_gpus: false,
      seq_lens: [],
      seq_len: 512,
      gpu: "h100",
    });
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
      "0 ways to train looked at",
      "1 way to train looked at",
      "3 ways to train looked at",
    ]);
    expect(adviceWords(advance(running, [stage(2, "confirm")]))).toBe("The best ways run on the GPU");
  });
});

describe("an advice in lists and files", () => {
  const headline = { gpu_name: "NVIDIA A10", source: "predicted", max_batch_size: null, recommended_batch_size: null, speedup: null };
  const job = { id: "abc", state: "done", model_name: "bert", target: "a10", kind: "advice", current_batch_size: 16, headline } as JobSummary;
  it("is told apart, and not compared", () => {
    expect(summaryWords(job)).toBe("Nothing is worth changing · predicted");
    const found = { ...headline, recommended_recipe: "bf16, fused AdamW", recommended_batch_size: 316, speedup: 3.02 };
    const listed = { ...job, recipe_words: "fp32, AdamW", headline: found } as JobSummary;
    expect(summaryWords(listed)).toBe("use 316 · 3.02x · predicted");
    expect(askedWords(listed)).toBe("fp32, AdamW → bf16, fused AdamW · batch 16 today");
    expect(isComparable(job)).toBe(false);
  });
  it("is a table with a line for each way", () => {
    const [header, ...rows] = optionsCsv(advice).trimEnd().split("\r\n");
    expect(header).toMatch(/^title,source,gain/);
    expect(rows).toHaveLength(advice.options.length);
    expect(rows[0]).toContain('"bf16 autocast, fused optimizer, batch 316",predicted,3.02');
  });
});
