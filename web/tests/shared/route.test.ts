import { describe, expect, it } from "vitest";
import { formAddress, link, parseRoute } from "../../src/shared/route";

describe("addresses", () => {
  it("survive a reload", () => {
    for (const [address, route] of [
      [link.analyze(), { page: "analyze" }],
      [link.gpus(), { page: "gpus" }],
      [link.history(), { page: "history" }],
      [link.sweeps(), { page: "sweeps" }],
      [link.sweep("abc"), { page: "sweep", id: "abc", view: "" }],
      [link.sweep("abc", "gpu=a10"), { page: "sweep", id: "abc", view: "gpu=a10" }],
      [link.job("abc"), { page: "job", id: "abc", part: null }],
      [link.job("abc", "a10"), { page: "job", id: "abc", part: "a10" }],
      [link.compare(["a", "b"]), { page: "compare", ids: ["a", "b"] }],
      [link.compare(), { page: "compare", ids: [] }],
      ["", { page: "analyze" }],
      ["#/nowhere", { page: "unknown" }],
    ] as const) {
      expect(parseRoute(address)).toEqual(route);
    }
  });

  it("hold a question on the pages with the form", () => {
    expect(formAddress(link.gpus("model=gpt2"))).toEqual({ path: "#/gpus", query: "model=gpt2" });
    expect(formAddress("#/")).toEqual({ path: "#/", query: "" });
    expect(formAddress(link.job("0123456789ab"))).toBeNull();
  });
});
