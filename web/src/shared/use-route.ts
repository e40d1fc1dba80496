import { useSyncExternalStore } from "react";
import { parseRoute, type Route } from "./route";

function onHashChange(listener: () => void): () => void {
  window.addEventListener("hashchange", listener);
  return () => window.removeEventListener("hashchange", listener);
}

export function useHash(): string {
  return useSyncExternalStore(onHashChange, () => window.location.hash);
}

export function useRoute(): Route {
  return parseRoute(useHash());
}

export function goTo(address: string): void {
  window.location.hash = address;
}
