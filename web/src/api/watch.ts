// Watches a job to its end: connects again by itself, and goes on after the last event it saw.
import { createParser } from "eventsource-parser";
import { answered, api, service } from "./client";
import { ApiError } from "./errors";
import { firstOf } from "./signals";
import type { JobEvent } from "./types";

export type Connection = "connecting" | "live" | "reconnecting" | "polling";

export interface Watch {
  onEvents: (events: JobEvent[]) => void;
  onConnection: (connection: Connection) => void;
  signal: AbortSignal;
}

const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 10_000;
const POLL_MS = 1_500;
// The server says something at least every 15 s; after this long the connection is dead.
const SILENCE_MS = 45_000;

/** Resolves when the job has ended or the signal says stop; rejects if the server refuses. */
export async function watchJob(id: string, watch: Watch): Promise<void> {
  const seen = { lastId: 0, ended: false };
  const onEvents = (events: JobEvent[]) => {
    const fresh = events.filter((event) => event.id > seen.lastId);
    if (fresh.length === 0) return;
    seen.lastId = fresh[fresh.length - 1]!.id;
    seen.ended ||= fresh.some((event) => event.event === "result" || event.event === "error");
    watch.onEvents(fresh);
  };
  let wait = FIRST_WAIT_MS;
  watch.onConnection("connecting");
  while (!watch.signal.aborted && !seen.ended) {
    try {
      const retryMs = await stream(id, seen.lastId, watch, onEvents);
      if (retryMs === null) return;
      wait = FIRST_WAIT_MS;
      // A stream has a bounded life; the server says when to come back.
      if (!seen.ended) await pause(retryMs, watch.signal);
    } catch (error) {
      if (watch.signal.aborted) return;
      if (error instanceof ApiError && error.status === 429) {
        watch.onConnection("polling");
        onEvents((await api.events(id, seen.lastId, watch).catch(() => ({ events: [] }))).events);
        await pause(POLL_MS, watch.signal);
        continue;
      }
      if (error instanceof ApiError && error.status < 500) throw error;
      watch.onConnection("reconnecting");
      await pause(wait, watch.signal);
      wait = Math.min(wait * 1.6, LONGEST_WAIT_MS);
    }
  }
}

/** One connection, to its end. Returns how long to wait before the next one; null when there is nothing more to come. */
async function stream(
  id: string,
  lastId: number,
  watch: Watch,
  onEvents: (events: JobEvent[]) => void,
): Promise<number | null> {
  const silence = new AbortController();
  const signal = firstOf(watch.signal, silence.signal);
  let timer = setTimeout(() => silence.abort(), SILENCE_MS);
  try {
    const body = await answered<ReadableStream<Uint8Array> | undefined>(
      service.GET("/jobs/{job_id}/events", {
        params: { path: { job_id: id } },
        headers: { Accept: "text/event-stream", ...(lastId > 0 ? { "Last-Event-ID": String(lastId) } : {}) },
        cache: "no-store",
        parseAs: "stream",
        signal,
        // The connection lives as long as data arrives.
        fetch: (request) => fetch(request),
      }),
    );
    if (!body) return null;
    watch.onConnection("live");
    let retryMs = FIRST_WAIT_MS;
    let arrived: JobEvent[] = [];
    const parser = createParser({
      onEvent: ({ data }) => arrived.push(JSON.parse(data) as JobEvent),
      onRetry: (ms) => (retryMs = ms),
    });
    const decoder = new TextDecoder();
    const reader = body.getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return retryMs;
      clearTimeout(timer);
      timer = setTimeout(() => silence.abort(), SILENCE_MS);
      parser.feed(decoder.decode(value, { stream: true }));
      onEvents(arrived);
      arrived = [];
    }
  } finally {
    clearTimeout(timer);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal.addEventListener("abort", end);
  });
}
