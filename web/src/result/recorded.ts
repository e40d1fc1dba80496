import type { Job, Recording } from "../api/types";
import { day } from "../shared/format";

/** Whether what a job shows was recorded, and is now played. */
export function isRecorded({ origin }: Pick<Job, "origin">): boolean {
  return origin === "recording";
}

/** What was recorded, where and when. */
export function recordedWords(recording: Recording, model: string): string {
  const { gpu_name: gpu, source, machine, versions, recorded_at: at } = recording;
  const what = [gpu ? `${model} on ${gpu}` : model, source].filter(Boolean).join(", ");
  const where = source === "measured" ? "" : ` on ${machine.system}`;
  return `Not live: ${what}. Recorded ${day(at)}${where}, torch ${versions["torch"]}.`;
}
