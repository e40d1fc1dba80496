import {
  createContext,
  useCallback,
  useContext,
  useEffect,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  type ReactNode,
} from "react";
import { formAddress } from "../shared/route";
import { FIRST_DRAFT, type Draft } from "./draft";
import { draftQuery, readDraftQuery } from "./draft-address";
import { keptConfigs, lastQuestion } from "./session";

interface DraftContext {
  draft: Draft;
  update: (next: (draft: Draft) => Draft) => void;
  change: (changes: Partial<Draft>) => void;
  /** Brings form and address together at once. */
  settle: () => void;
}

/** Browsers refuse an address that changes with every letter of a fast typist. */
const WRITE_EVERY_MS = 250;

const Context = createContext<DraftContext>({
  draft: FIRST_DRAFT,
  update: () => undefined,
  change: () => undefined,
  settle: () => undefined,
});

/** The question in the form. It lives in the address of the page; a form without one shows what this tab asked last. */
export function DraftProvider({ children }: { children: ReactNode }) {
  const [draft, update] = useState<Draft>(() => {
    const query = formAddress(window.location.hash)?.query || lastQuestion.get();
    return readDraftQuery(query, keptConfigs) ?? FIRST_DRAFT;
  });
  const latest = useRef(draft);
  useLayoutEffect(() => {
    latest.current = draft;
  }, [draft]);

  // The question in the address that is known here; any other came by a link, or by the browser's back and forward.
  const known = useRef(formAddress(window.location.hash)?.query ?? "");

  const settle = useCallback(() => {
    const form = formAddress(window.location.hash);
    if (form && form.query !== "" && form.query !== known.current) {
      known.current = form.query;
      const asked = readDraftQuery(form.query, keptConfigs);
      if (asked) return update(asked);
    }
    const query = draftQuery(latest.current, keptConfigs);
    lastQuestion.set(query);
    if (!form) return;
    known.current = query;
    if (form.query !== query) window.history.replaceState(window.history.state, "", `${form.path}?${query}`);
  }, []);

  useEffect(() => {
    window.addEventListener("hashchange", settle);
    return () => window.removeEventListener("hashchange", settle);
  }, [settle]);

  const writtenAt = useRef(-WRITE_EVERY_MS);
  useEffect(() => {
    const write = () => {
      writtenAt.current = performance.now();
      settle();
    };
    const wait = writtenAt.current + WRITE_EVERY_MS - performance.now();
    if (wait <= 0) return write();
    const timer = setTimeout(write, wait);
    return () => clearTimeout(timer);
  }, [draft, settle]);

  const change = useCallback((changes: Partial<Draft>) => update((before) => ({ ...before, ...changes })), []);
  const value = useMemo(() => ({ draft, update, change, settle }), [draft, change, settle]);
  return <Context value={value}>{children}</Context>;
}

export function useDraft(): DraftContext {
  return useContext(Context);
}
