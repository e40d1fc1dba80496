import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { watchJob, type Connection } from "../../src/api/watch";
import type { JobEvent } from "../../src/api/types";
import { events } from "../data";

const asStream = (some: readonly JobEvent[]) =>
  new Response(
    some.map((event) => `id: ${event.id}\nevent: ${event.event}\ndata: ${JSON.stringify(event)}\n\n`).join(""),
    {
      headers: { "Content-Type": "text/event-stream" },
    },
  );
const refused = (status: number) => Response.json({ status: "error", error: "no." }, { status });

/** Watches a job whose connections end as given; tells what was seen and which header each connection sent. */
async function watch(...connections: (Response | Error)[]) {
  const resumedAfter: (string | null)[] = [];
  vi.stubGlobal("fetch", (request: Request) => {
    resumedAfter.push(request.headers.get("Last-Event-ID"));
    const next = connections.shift() ?? new Error("nobody there");
    return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
  });
  const seen: JobEvent[] = [];
  const states: Connection[] = [];
  const done = watchJob("abc", {
    onEvents: (some) => seen.push(...some),
    onConnection: (state) => states.push(state),
    signal: new AbortController().signal,
  });
  done.catch(() => undefined);
  await vi.runAllTimersAsync();
  return { seen, states, resumedAfter, done };
}

describe("watchJob", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => {
    vi.useRealTimers();
    vi.unstubAllGlobals();
  });

  it("gives every event and ends with the job", async () => {
    const { seen, resumedAfter, done } = await watch(asStream(events));
    await done;
    expect(seen).toEqual(events);
    expect(resumedAfter).toEqual([null]);
  });

  it("goes on after the last event when the stream ends early", async () => {
    const { seen, states, resumedAfter } = await watch(asStream(events.slice(0, 4)), asStream(events.slice(4)));
    expect(seen).toEqual(events);
    expect(resumedAfter).toEqual([null, "4"]);
    expect(states).not.toContain("reconnecting");
  });

  it("says that it reconnects while nobody answers, and recovers", async () => {
    const away = new TypeError("failed to fetch");
    const { seen, states } = await watch(asStream(events.slice(0, 4)), away, away, asStream(events.slice(4)));
    expect(seen).toEqual(events);
    expect(states).toEqual(["connecting", "live", "reconnecting", "reconnecting", "live"]);
  });

  it("shows no event twice if the server sends some again", async () => {
    const { seen } = await watch(asStream(events.slice(0, 6)), asStream(events));
    expect(seen).toEqual(events);
  });

  it("reads a stream however it is cut, and comes back when it is told to", async () => {
    const [first, ...rest] = events;
    const text = `retry: 9000\n\n: still here\n\nid: 1\ndata: ${JSON.stringify(first)}\n\n`;
    const pieces = new TextEncoder().encode(text);
    const body = new ReadableStream<Uint8Array>({
      start(stream) {
        for (let at = 0; at < pieces.length; at += 7) stream.enqueue(pieces.slice(at, at + 7));
        stream.close();
      },
    });
    const before = Date.now();
    const { seen } = await watch(new Response(body), asStream(rest));
    expect(seen).toEqual(events);
    expect(Date.now() - before).toBeGreaterThanOrEqual(9000);
  });

  it("ends when there is nothing more to come", async () => {
    const { seen, done } = await watch(new Response(null, { status: 204 }));
    await expect(done).resolves.toBeUndefined();
    expect(seen).toEqual([]);
  });

  it("gives up on a job that does not exist", async () => {
    const { done } = await watch(refused(404));
    await expect(done).rejects.toThrow("no.");
  });

  it("polls when too many streams are open", async () => {
    const { seen, states } = await watch(refused(429), Response.json({ status: "success", state: "done", events }));
    expect(states).toContain("polling");
    expect(seen).toEqual(events);
  });
});
