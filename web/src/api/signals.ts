/** A signal that aborts with the first of these. AbortSignal.any does the same in newer browsers only. */
export function firstOf(...signals: (AbortSignal | undefined)[]): AbortSignal {
  const both = new AbortController();
  for (const signal of signals) {
    if (signal?.aborted) both.abort();
    signal?.addEventListener("abort", () => both.abort(), { once: true });
  }
  return both.signal;
}
