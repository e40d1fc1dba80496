import { useSyncExternalStore } from "react";
import { onTokenChange, tokenState } from "../api/token";

export function useToken() {
  return useSyncExternalStore(onTokenChange, tokenState);
}
