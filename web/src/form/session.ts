// What this tab remembers until it is closed. A browser may forbid it, and then nothing is remembered.
import type { Keep } from "./draft-address";

const LAST_QUESTION = "memorymark.question";
const CONFIG = "memorymark.config.";

function get(key: string): string | null {
  try {
    return window.sessionStorage.getItem(key);
  } catch {
    return null;
  }
}

function set(key: string, text: string): void {
  try {
    window.sessionStorage.setItem(key, text);
  } catch {
    // It is forbidden or full: the form still has it.
  }
}

/** The question that the form held last, as in an address. */
export const lastQuestion = {
  get: () => get(LAST_QUESTION) ?? "",
  set: (query: string) => set(LAST_QUESTION, query),
};

/** Pasted configs that are too long for an address. */
export const keptConfigs: Keep = {
  get: (key) => get(CONFIG + key),
  set: (key, text) => set(CONFIG + key, text),
};
