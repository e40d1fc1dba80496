import { describe, expect, it } from "vitest";
import { FIRST_DRAFT, draftBody, draftOf, questionBody, type Draft } from "../src/logic/draft";
import { draftQuery, readDraftQuery, type Keep } from "../src/logic/draft-address";
import { formAddress, link } from "../src/logic/route";
import { sampleShape } from "../src/logic/sample";
import { bert, question } from "./data";

function keep(): Keep & { kept: Map<string, string> } {
  const kept = new Map<string, string>();
  return { kept, get: (key) => kept.get(key) ?? null, set: (key, text) => void kept.set(key, text) };
}

const EVERYTHING: Draft = {
  model: "org/name",
  isPasted: false,
  configText: "",
  configName: "",
  task: "ctc",
  revision: "v2",
  gpu: "cuda:1",
  precision: "bf16",
  optimizer: "sgd",
  sampleSize: "12",
  sampleUnit: "seconds",
  checkpointing: true,
  batchSize: "3",
  compile: true,
  tf32: true,
  channelsLast: true,
  fused: true,
  lora: "8",
  accumulate: "4",
  memoryGib: "7.5",
  marginPercent: "7",
  attention: "eager",
  loss: "mean",
  evalMode: true,
  small: "no",
  maxBatch: "64",
  trustRemoteCode: true,
  tryCompile: false,
  pricePerHour: "0.25",
  hoursPerRun: "1.5",
  runsPerYear: "10",
  people: "3",
};

describe("the address of a question", () => {
  it("can be read, and leaves out what is usual", () => {
    const draft: Draft = { ...FIRST_DRAFT, model: "org/name", gpu: "h100", sampleSize: "128, 512", tf32: true };
    expect(draftQuery(draft, keep())).toBe("model=org/name&gpu=h100&size=128,512&tf32=true");
    expect(draftQuery(FIRST_DRAFT, keep())).toBe("model=bert");
  });

  it("holds all of it", () => {
    expect(readDraftQuery(draftQuery(EVERYTHING, keep()), keep())).toEqual(EVERYTHING);
    const usual = Object.entries(EVERYTHING).filter(([field, value]) => value === FIRST_DRAFT[field as keyof Draft]);
    expect(usual.map(([field]) => field)).toEqual(["isPasted", "configText", "configName"]);
  });

  it("holds a config, and the browser one that is too long", () => {
    const pasted = { ...FIRST_DRAFT, isPasted: true, configName: "mine", configText: '{\n  "model_type": "llama"\n}' };
    expect(draftQuery(pasted, keep())).toContain("config=%7B%22model_type%22:%22llama%22%7D");
    expect(readDraftQuery(draftQuery(pasted, keep()), keep())).toEqual(pasted);
    const long = { ...pasted, configText: JSON.stringify({ model_type: "resnet", id2label: "x".repeat(9_000) }, null, 2) };
    const browser = keep();
    const query = draftQuery(long, browser);
    expect(query.length).toBeLessThan(100);
    expect(readDraftQuery(query, browser)).toEqual(long);
    expect(readDraftQuery(query, keep())).toMatchObject({ isPasted: true, configText: "" });
    const half = { ...pasted, configText: '{"model_type": ' };
    expect(readDraftQuery(draftQuery(half, keep()), keep())).toEqual(half);
  });

  it("asks nothing where nothing is in it, and takes no nonsense", () => {
    expect(readDraftQuery("", keep())).toBeNull();
    expect(readDraftQuery("ids=1,2", keep())).toBeNull();
    expect(readDraftQuery("model=gpt2&precision=int3&optimizer=__proto__", keep())).toEqual({ ...FIRST_DRAFT, model: "gpt2" });
  });

  it("belongs to the pages with the form", () => {
    expect(formAddress(link.gpus("model=gpt2"))).toEqual({ path: "#/gpus", query: "model=gpt2" });
    expect(formAddress("#/")).toEqual({ path: "#/", query: "" });
    expect(formAddress(link.job("0123456789ab"))).toBeNull();
  });
});

describe("the question of a job in the form", () => {
  const shape = sampleShape(FIRST_DRAFT, bert, []);

  it("asks the same when nothing is changed", () => {
    const all = {
      ...question,
      max_batch: 64,
      margin: 0.07,
      price_per_hour: 0.25,
      usage: { hours_per_run: 1.5, runs_per_year: 10, people: 3 },
      request: {
        ...question.request,
        seq_len: 64,
        small: false,
        recipe: { ...question.request.recipe, precision: "bf16" as const, attention: "eager" as const, lora: 8, tf32: true },
        target: { ...question.request.target, memory_cap_bytes: 5 * 2 ** 30 },
      },
    };
    const asked = questionBody(all) as Record<string, unknown>;
    for (const [name, value] of Object.entries(draftBody(draftOf(all), shape))) expect([name, asked[name]]).toEqual([name, value]);
    expect(draftBody(draftOf(all), shape)).toMatchObject({ seq_len: 64, margin: 0.07, small: false, max_batch: 64, lora: 8 });
  });

  it("keeps what a size counts, of a model that does not tell", () => {
    const images = { ...question, request: { ...question.request, model: "org/name", image_size: 96, seq_len: null } };
    const draft = draftOf(images);
    expect(draftBody(draft, sampleShape(draft, undefined, []))).toMatchObject({ model_name: "org/name", image_size: 96 });
    expect(sampleShape({ task: "", model: "timm:resnet18" }, undefined, [])).toMatchObject({ unit: "pixels", isSure: true });
  });

  it("holds several lengths, and one of them where a part was looked at", () => {
    const several = { ...question, seq_lens: [64, 128] };
    expect(draftOf(several).sampleSize).toBe("64, 128");
    expect(draftOf(several, { ...question.request, seq_len: 64 }).sampleSize).toBe("64");
  });

  it("holds a config with its name, if it was given one", () => {
    const config = { model_type: "llama", hidden_size: 64 };
    const of = (model: string) => draftOf({ ...question, request: { ...question.request, model, config } });
    expect(of("llama config")).toMatchObject({ isPasted: true, configName: "" });
    expect(of("mine")).toMatchObject({ configName: "mine", configText: JSON.stringify(config, null, 2) });
    expect(draftBody(of("mine"), shape)).toMatchObject({ config, model_name: "mine" });
  });
});
