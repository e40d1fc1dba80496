import { describe, expect, it } from "vitest";
import { ApiError, UnreachableError } from "../../src/api/errors";
import { FIRST_DRAFT } from "../../src/form/draft";
import { faultsOf, placeOf, refusedOption } from "../../src/form/faults";
import { sampleShape } from "../../src/form/sample";
import { bert, options } from "../data";

const suggestions = [{ label: "5 %", change: { margin: 0.05 } }];
const state = (isForAllGpus = false) => ({
  situation: { draft: FIRST_DRAFT, options, unit: null, isMeasured: false, isForAllGpus },
  shape: sampleShape(FIRST_DRAFT, bert, [], options),
});

describe("a refusal", () => {
  it("says which option it is about, and what may help", () => {
    const error = new ApiError(400, "margin must be below 1.", "usage", null, { field: "margin", suggestions });
    expect(refusedOption(error)).toEqual({ name: "margin", fault: { text: "Margin must be below 1.", suggestions } });
    expect(refusedOption(new ApiError(429, "full."))).toBeNull();
    expect(refusedOption(new UnreachableError(false))).toBeNull();
  });

  it("is shown at the field that sets the option", () => {
    const place = (name: string, isForAllGpus = false) => placeOf(name, state(isForAllGpus));
    expect(["config", "model_name", "device", "seq_lens", "image_size", "margin", "revision"].map((name) => place(name))).toEqual([
      "model_name",
      "model_name",
      "gpu",
      "seq_len",
      "seq_len",
      "margin",
      "revision",
    ]);
    expect([place("all_gpus"), place("nothing"), place("gpu", true), place("memory_gib", true)]).toEqual([null, null, null, null]);
  });
});

describe("faults", () => {
  it("are those among what was checked", () => {
    expect(faultsOf({ a: null, b: "No.", c: { text: "x", suggestions } })).toEqual({
      b: { text: "No.", suggestions: [] },
      c: { text: "x", suggestions },
    });
  });
});
