// What is known of a job from its events, one after the other.
import type { JobEvent, State, Trial } from "../api/types";
import { bytes, count, perSecond } from "../shared/format";
import { rateOf, rateUnit } from "../shared/rate";

export interface LogLine {
  id: number;
  at: string;
  mark: "state" | "stage" | "fits" | "fails" | "done" | "error";
  text: string;
}

export interface JobProgress {
  state: State | null;
  stage: string | null;
  message: string | null;
  startedAt: string | null;
  lines: LogLine[];
  trials: Trial[];
  /** How many stages have begun: with all GPUs, one for each GPU. */
  stages: number;
  stageAt: string | null;
  /** The memory of the GPU, or the cap on what may be taken of it, once it is known. */
  targetBytes: number | null;
  /** How often it began anew: with several lengths, once for each. */
  starts: number;
}

export const NOTHING_YET: JobProgress = {
  state: null,
  stage: null,
  message: null,
  startedAt: null,
  lines: [],
  trials: [],
  stages: 0,
  stageAt: null,
  targetBytes: null,
  starts: 0,
};

export function advance(progress: JobProgress, events: readonly JobEvent[]): JobProgress {
  const next = { ...progress, lines: [...progress.lines], trials: [...progress.trials] };
  for (const event of events) take(next, event);
  return next;
}

function take(next: JobProgress, { id, event, at, data }: JobEvent): void {
  const log = (mark: LogLine["mark"], text: string) => next.lines.push({ id, at, mark, text });
  if (event === "state") {
    next.state = data["state"] as State;
    if (next.state === "running") next.startedAt = at;
    log("state", next.state);
  } else if (event === "stage") {
    next.stage = data["stage"] as string;
    next.message = data["message"] as string;
    next.stages += 1;
    if (next.stage === "start") next.starts += 1;
    next.stageAt = at;
    next.targetBytes = (data["target_bytes"] as number | undefined) ?? next.targetBytes;
    log("stage", next.message);
  } else if (event === "trial") {
    const trial = data["trial"] as Trial;
    next.trials.push(trial);
    log(trial.fits ? "fits" : "fails", trialWords(trial));
  } else if (event === "result") {
    next.state = "done";
    log("done", "done");
  } else {
    next.state = data["state"] as State;
    log("error", data["error"] as string);
  }
}

export function trialWords(trial: Trial): string {
  const words = [`batch ${count(trial.batch_size).padEnd(6)}`];
  if (!trial.fits) return [...words, trial.failure?.message ?? "does not fit"].join("  ");
  words.push(bytes(trial.device_bytes).padStart(10));
  const rate = rateOf(trial);
  if (rate !== null) words.push(`${perSecond(rate).padStart(7)} ${rateUnit([trial])}/s`);
  if (trial.allocator_retries > 0) words.push(`${trial.allocator_retries} allocator retries`);
  return words.join("  ");
}

const SEARCH_FROM = 0.35;
const TIMING_FROM = 0.6;
const ALMOST = 0.97;

/** How far an advice is: each recipe that is tried brings it closer to the end, though their number is unknown. */
export function fractionAdvised(progress: JobProgress, now: number): number {
  if (progress.state === null || progress.state === "queued") return 0;
  if (progress.state !== "running") return 1;
  const tried = Math.max(progress.stages - 1, 0) + nearing(progress, now);
  return ALMOST * (1 - 0.82 ** tried);
}

/** What has been done for an advice so far. */
export function adviceWords({ stage, stages }: JobProgress): string {
  if (stage === "confirm") return "Measuring the best ways on the GPU";
  const ways = Math.max(stages - 1, 0);
  return ways === 1 ? "1 way to train checked" : `${ways} ways to train checked`;
}

/** From 0 towards 1 while a stage goes on. */
function nearing({ stageAt }: JobProgress, now: number): number {
  const waited = stageAt ? Math.max(now - Date.parse(stageAt), 0) / 1000 : 0;
  return 1 - Math.exp(-waited / 6);
}

/**
 * How far it is, from 0 to 1. The start takes an unknown while, so it approaches the next stage without reaching it;
 * timing is counted in batch sizes; with all GPUs, GPUs are counted, with several lengths, those.
 */
export function fractionDone(progress: JobProgress, now: number, gpuCount: number | null, lengthCount = 1): number {
  if (progress.state === null || progress.state === "queued") return 0;
  if (progress.state !== "running") return 1;
  const within = nearing(progress, now);
  if (gpuCount !== null && progress.stages > 1) {
    return Math.min(SEARCH_FROM + ((1 - SEARCH_FROM) * (progress.stages - 1)) / gpuCount, ALMOST);
  }
  if (lengthCount > 1) {
    const part = { start: 0.1 * within, search: 0.3 }[progress.stage ?? "start"] ?? 0.6;
    return Math.min((Math.max(progress.starts - 1, 0) + part) / lengthCount, ALMOST);
  }
  if (progress.stage === "throughput") {
    const timed = progress.trials.filter((trial) => trial.samples_per_second !== null).length;
    return Math.min(TIMING_FROM + ((1 - TIMING_FROM) * timed) / expectedTimings(progress.trials), ALMOST);
  }
  if (progress.stage === "suggest") return TIMING_FROM + (ALMOST - TIMING_FROM) * (1 - 0.7 ** checked(progress));
  if (progress.stage === "search") {
    const tried = 1 - 0.75 ** progress.trials.length;
    return SEARCH_FROM + (TIMING_FROM - SEARCH_FROM) * Math.max(tried, 0.5 * within);
  }
  return SEARCH_FROM * within;
}

/** How many ways to fit have been checked. */
function checked({ stages }: JobProgress): number {
  return Math.max(stages - 2, 1);
}

/** The maximum, today's size, one that keeps the margin, one between two, and the powers of two from 8. */
function expectedTimings(trials: readonly Trial[]): number {
  const most = Math.max(1, ...trials.filter((trial) => trial.fits).map((trial) => trial.batch_size));
  return 4 + Math.max(Math.floor(Math.log2((0.85 * most) / 8)) + 1, 0);
}
