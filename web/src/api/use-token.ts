import { useSyncExternalStore } from "react";
import { onTokenChange, tokenState } from "./token";

export function useToken() {
  return useSyncExternalStore(onTokenChange, tokenState);
}
