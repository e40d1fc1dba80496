import { startTransition, useEffect, useRef, useState } from "react";

/** A value that changes at most every so often; the last change is never lost. Redrawing it can be interrupted. */
export function useThrottled<T>(value: T, ms: number): T {
  const [shown, setShown] = useState(value);
  const last = useRef(0);
  useEffect(() => {
    const wait = Math.max(last.current + ms - Date.now(), 0);
    const timer = setTimeout(() => {
      last.current = Date.now();
      startTransition(() => setShown(value));
    }, wait);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return shown;
}
