import { describe, expect, it } from "vitest";
import { SseParser } from "../src/api/sse";

const STREAM =
  'retry: 1000\n\nid: 1\nevent: state\ndata: {"a":1}\n\n: still here\n\nid: 2\nevent: trial\ndata: {"b":2}\n\n';
const MESSAGES = [
  { id: "1", event: "state", data: '{"a":1}' },
  { id: "2", event: "trial", data: '{"b":2}' },
];

describe("SseParser", () => {
  it("reads messages, the waiting time and leaves out comments", () => {
    const parser = new SseParser();
    expect(parser.push(STREAM)).toEqual(MESSAGES);
    expect(parser.retryMs).toBe(1000);
    expect(parser.lastId).toBe("2");
  });

  it("does not mind where the stream is cut", () => {
    for (let size = 1; size < 12; size += 1) {
      const parser = new SseParser();
      const pieces = STREAM.match(new RegExp(`[^]{1,${size}}`, "g")) ?? [];
      expect(pieces.flatMap((piece) => parser.push(piece))).toEqual(MESSAGES);
    }
  });

  it("takes every kind of line end, even one that is cut in two", () => {
    const parser = new SseParser();
    const pieces = ["data: one\r", "\n\r\n", "data: two\r\r", "data: three\n\n"];
    expect(pieces.flatMap((piece) => parser.push(piece)).map((message) => message.data)).toEqual([
      "one",
      "two",
      "three",
    ]);
  });

  it("joins the lines of one message and drops a message without data", () => {
    const parser = new SseParser();
    expect(parser.push("data: a\ndata: b\n\nevent: nothing\n\n")).toEqual([{ id: "", event: "message", data: "a\nb" }]);
  });

  it("holds back a message that is not complete", () => {
    expect(new SseParser().push("id: 1\ndata: half")).toEqual([]);
  });
});
