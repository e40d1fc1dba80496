import { useEffect, useRef, useState, type RefObject } from "react";
import { useGpus, useHealth } from "../api/queries";
import type { Suggestion } from "../api/types";
import { Button } from "../ui/Button";
import { ErrorBox } from "../ui/ErrorBox";
import type { Ask } from "./asking";
import { FIRST_DRAFT, withValues } from "./draft";
import { defaultGpu } from "./gpu-names";
import { GpuField } from "./GpuField";
import { MainFields } from "./MainFields";
import { ModelField } from "./ModelField";
import { holdsFault, MoreOptions } from "./MoreOptions";
import { useAsking } from "./use-asking";
import { useDraft } from "./use-draft";
import { useFormState } from "./use-form-state";

const WORDS: Record<Ask, string> = {
  analysis: "Analyze Memory Usage",
  advice: "What should I change?",
  gpus: "Compare All GPUs",
};

/** The question: which model, on which GPU, trained how, and with what batch size today. */
export function QuestionForm({ isForAllGpus = false }: { isForAllGpus?: boolean }) {
  const { draft, update } = useDraft();
  const [attempts, setAttempts] = useState(0);
  const [isMoreOpen, setMoreOpen] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  useFirstQuestion();
  useFirstWrongField(form, attempts);
  const state = useFormState(isForAllGpus);
  const { situation, shape, isReady } = state;
  const { ask, pending, faults, problem, suggestions, reset } = useAsking(state, (wrong) => {
    if (holdsFault(situation, wrong)) setMoreOpen(true);
    setAttempts((before) => before + 1);
  });
  const isBusy = pending !== null || !isReady;
  const main = isForAllGpus ? "gpus" : "analysis";
  const words = (what: Ask) => (pending === what ? "Asking…" : WORDS[what]);
  const apply = ({ change }: Suggestion) => {
    reset();
    update((before) => withValues(before, change));
  };
  return (
    <form
      ref={form}
      aria-label={isForAllGpus ? "Compare all GPUs" : "Analyze a training"}
      noValidate
      className="card space-y-5 self-start p-5 sm:p-6"
      onSubmit={(event) => {
        event.preventDefault();
        if (!isBusy) ask(main);
      }}
    >
      <div data-field="model_name">
        <ModelField state={state} fault={faults[draft.isPasted ? "config" : "model_name"]} />
      </div>
      {!isForAllGpus && (
        <div data-field="gpu">
          <GpuField entries={state.gpus} fault={faults["gpu"]} />
        </div>
      )}
      {isReady ? <MainFields situation={situation} shape={shape} faults={faults} /> : <div className="skeleton h-84" />}
      <MoreOptions
        model={state.model}
        situation={situation}
        faults={faults}
        isOpen={isMoreOpen}
        onOpenChange={setMoreOpen}
      />
      {/* The form is longer than a screen; its button and the outcome of pressing it are always in sight. */}
      <div className="sticky bottom-0 z-10 -mx-5 -mt-3 mb-0 space-y-3 bg-card px-5 py-3 sm:-mx-6 sm:px-6">
        {problem && (
          <div className="max-h-[50dvh] overflow-y-auto">
            <ErrorBox problem={problem} onDismiss={reset}>
              {suggestions.length > 0 &&
                suggestions.map((suggestion) => (
                  <Button key={suggestion.label} onClick={() => apply(suggestion)}>
                    {suggestion.label}
                  </Button>
                ))}
            </ErrorBox>
          </div>
        )}
        <Button look="primary" isLarge type="submit" disabled={isBusy} className="w-full">
          {words(main)}
        </Button>
      </div>
      {!isForAllGpus && (
        <Button disabled={isBusy} onClick={() => ask("advice")} className="min-h-12 w-full">
          {words("advice")}
        </Button>
      )}
      <StartOver
        onClick={() => {
          reset();
          update(() => FIRST_DRAFT);
        }}
      />
    </form>
  );
}

function StartOver({ onClick }: { onClick: () => void }) {
  return (
    <p className="-mt-2 text-center">
      <button type="button" onClick={onClick} className="min-h-7 rounded px-1 text-xs text-soft underline hover:text-ink">
        Start over
      </button>
    </p>
  );
}

/** An untouched form asks the recorded question, if the server plays one; else it begins with a GPU. */
function useFirstQuestion(): void {
  const { draft, change, update } = useDraft();
  const { data: gpus } = useGpus();
  const { data: health } = useHealth();
  useEffect(() => {
    const recorded = health?.recording?.options;
    if (recorded && draft === FIRST_DRAFT) update(() => withValues(FIRST_DRAFT, recorded));
    else if (!draft.gpu && gpus && health) change({ gpu: defaultGpu(gpus, health) });
  }, [draft, gpus, health, change, update]);
}

/** Moves the focus to the first field that is wrong. */
function useFirstWrongField(form: RefObject<HTMLFormElement | null>, attempts: number): void {
  useEffect(() => {
    if (attempts === 0) return;
    const wrong = "[aria-invalid=true], [data-invalid=true]";
    // Folded options that contain a wrong field unfold first.
    const frame = requestAnimationFrame(() => form.current?.querySelector<HTMLElement>(wrong)?.focus());
    return () => cancelAnimationFrame(frame);
  }, [form, attempts]);
}
