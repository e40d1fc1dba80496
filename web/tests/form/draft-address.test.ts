import { describe, expect, it } from "vitest";
import { FIRST_DRAFT, type Draft } from "../../src/form/draft";
import { draftQuery, readDraftQuery, type Keep } from "../../src/form/draft-address";

function keep(): Keep & { kept: Map<string, string> } {
  const kept = new Map<string, string>();
  return { kept, get: (key) => kept.get(key) ?? null, set: (key, text) => void kept.set(key, text) };
}

describe("the address of a question", () => {
  it("can be read, and leaves out what is as declared", () => {
    const draft: Draft = { ...FIRST_DRAFT, model: "org/name", gpu: "h100", options: { seq_len: "128, 512", tf32: "true" } };
    expect(draftQuery(draft, keep())).toBe("model=org/name&gpu=h100&seq_len=128,512&tf32=true");
    expect(draftQuery(FIRST_DRAFT, keep())).toBe("model=bert");
  });

  it("holds every option, whatever the service has", () => {
    const draft = { ...FIRST_DRAFT, gpu: "cuda:1", options: { margin: "0.07", a_new_option: "4", revision: "v2/x" } };
    expect(readDraftQuery(draftQuery(draft, keep()), keep())).toEqual(draft);
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

  it("asks nothing where nothing is in it", () => {
    expect(readDraftQuery("", keep())).toBeNull();
    expect(readDraftQuery("__proto__=1", keep())).toMatchObject({ model: "bert" });
  });
});
