// What a screen reader says next: one live region for all pages, which exists before it has anything to say.
import { useSyncExternalStore } from "react";

let said = "";
const listeners = new Set<() => void>();

export function announce(text: string): void {
  said = text;
  for (const listener of listeners) listener();
}

export function useAnnouncement(): string {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => said,
  );
}
