// The token that a service may require. It is kept for this tab only.
const KEY = "memorymark-token";

export interface TokenState {
  token: string | null;
  /** The service refused the last call. */
  wanted: boolean;
}

let state: TokenState = { token: stored(), wanted: false };
const listeners = new Set<() => void>();

export const tokenState = (): TokenState => state;

export function onTokenChange(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function setToken(token: string): void {
  try {
    sessionStorage.setItem(KEY, token);
  } catch {
    // Without storage the token lasts until the page is closed.
  }
  change({ token, wanted: false });
}

export function askForToken(): void {
  if (!state.wanted) change({ ...state, wanted: true });
}

function change(next: TokenState): void {
  state = next;
  for (const listener of listeners) listener();
}

function stored(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}
