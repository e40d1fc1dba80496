import { useState } from "react";
import { ApiError } from "../api/errors";
import type { Suggestion } from "../api/types";
import { askProblem, type Problem } from "../shared/problems";
import { valueNamed } from "../ui/entries";
import { draftErrors, draftValues, type Ask } from "./asking";
import type { Draft } from "./draft";
import { faultsOf, placeOf, refusedOption, type Faults } from "./faults";
import { wrongGpu } from "./gpu-names";
import { wrongModel } from "./model-names";
import { useDraft } from "./use-draft";
import type { FormState } from "./use-form-state";
import { useSubmit } from "./use-submit";

interface Asking {
  ask: (what: Ask) => void;
  /** What is being asked now. */
  pending: Ask | null;
  /** What is wrong with the fields. */
  faults: Faults;
  /** What went wrong apart from the fields, and what may help. */
  problem: Problem | null;
  suggestions: readonly Suggestion[];
  reset: () => void;
}

/** Asks what the form holds, or says which fields are wrong; `onWrong` leads there. */
export function useAsking(state: FormState, onWrong: (faults: Faults) => void): Asking {
  const { draft, settle } = useDraft();
  const submit = useSubmit();
  const [asked, setAsked] = useState<Ask | null>(null);
  const [sent, setSent] = useState<Draft | null>(null);
  const { situation, shape, models, gpus } = state;

  const refusedAt = (error: unknown): Faults | null => {
    const refused = refusedOption(error);
    const place = refused && placeOf(refused.name, state);
    return place ? { [place]: refused.fault } : null;
  };
  const names = faultsOf({
    model_name: draft.isPasted ? null : wrongModel(models, draft.model),
    gpu: situation.isForAllGpus ? null : wrongGpu(gpus, draft.gpu),
  });
  const wrongFor = (what: Ask): Faults => ({ ...faultsOf(draftErrors(situation, shape, what)), ...names });

  const ask = (what: Ask) => {
    settle();
    setAsked(what);
    const wrong = wrongFor(what);
    if (Object.keys(wrong).length > 0) return onWrong(wrong);
    setSent(draft);
    const meant = { ...draft, model: valueNamed(models, draft.model), gpu: valueNamed(gpus, draft.gpu) };
    submit.mutate(draftValues({ ...situation, draft: meant }, shape, what), {
      onError: (error) => onWrong(refusedAt(error) ?? {}),
    });
  };
  const refused = refusedAt(submit.error);
  return {
    ask,
    pending: submit.isPending ? asked : null,
    // A refusal is about the question that was sent, not about one that was changed since.
    faults: { ...(asked ? wrongFor(asked) : names), ...(sent === draft ? refused : null) },
    problem: submit.isError && !refused ? askProblem(submit.error) : null,
    suggestions: (submit.error instanceof ApiError && submit.error.fault.suggestions) || [],
    reset: () => {
      setAsked(null);
      submit.reset();
    },
  };
}
