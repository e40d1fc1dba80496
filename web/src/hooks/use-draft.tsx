import { createContext, useContext, useMemo, useState, type ReactNode } from "react";
import { FIRST_DRAFT, type Draft } from "../logic/draft";

interface DraftContext {
  draft: Draft;
  change: (changes: Partial<Draft>) => void;
}

const Context = createContext<DraftContext>({ draft: FIRST_DRAFT, change: () => undefined });

/** Keeps what was typed while one looks at a result. */
export function DraftProvider({ children }: { children: ReactNode }) {
  const [draft, setDraft] = useState(FIRST_DRAFT);
  const value = useMemo(
    () => ({ draft, change: (changes: Partial<Draft>) => setDraft((before) => ({ ...before, ...changes })) }),
    [draft],
  );
  return <Context value={value}>{children}</Context>;
}

export function useDraft(): DraftContext {
  return useContext(Context);
}
