import { useEffect, useRef, useState } from "react";
import { useGpus, useHealth, useModels, useSubmit, useTasks } from "../hooks/queries";
import { useDraft } from "../hooks/use-draft";
import { gpuOptions, knownModel, modelOptions, named, wrongGpu, wrongModel } from "../logic/asked-names";
import { adviseBody, allGpusBody, defaultGpu, draftBody, draftErrors, FIRST_DRAFT, type DraftErrors } from "../logic/draft";
import { askProblem } from "../logic/problems";
import { sampleShape } from "../logic/sample";
import { Button } from "../ui/Button";
import { ErrorBox } from "../ui/ErrorBox";
import { NumberField } from "../ui/fields";
import { GpuField } from "./GpuField";
import { ModelField } from "./ModelField";
import { FURTHER_FIELDS, MoreOptions } from "./MoreOptions";
import { RecipeFields } from "./RecipeFields";

/** What can be asked about what the form holds. */
type Ask = "analysis" | "advice" | "gpus";
const WORDS = { analysis: "Analyze Memory Usage", advice: "What should I change?", gpus: "Compare All GPUs" };
const BODIES = { analysis: draftBody, advice: adviseBody, gpus: allGpusBody };

/** The question: which model, on which GPU, trained how, and with what batch size today. */
export function QuestionForm({ isForAllGpus = false }: { isForAllGpus?: boolean }) {
  const { draft, change, settle } = useDraft();
  const { data: models = [] } = useModels();
  const { data: gpus = [] } = useGpus();
  const { data: health } = useHealth();
  const { data: tasks = [] } = useTasks();
  const submit = useSubmit();
  const [asked, setAsked] = useState<Ask | null>(null);
  const [attempts, setAttempts] = useState(0);
  const [isMoreOpen, setMoreOpen] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  useDefaultGpu();
  useFirstWrongField(form, attempts);
  const modelChoices = modelOptions(models);
  const gpuChoices = gpuOptions(gpus, health);
  const model = draft.isPasted ? undefined : knownModel(models, draft.model);
  const shape = sampleShape(draft, model, tasks);
  const errorsFor = (what: Ask): DraftErrors => ({
    ...draftErrors(draft, shape, what !== "analysis"),
    ...(draft.isPasted || !wrongModel(modelChoices, draft.model) ? {} : { model: "Nothing is called so." }),
    ...(what === "gpus" || !wrongGpu(gpuChoices, draft.gpu) ? {} : { gpu: "No GPU is called so." }),
  });
  const errors = asked ? errorsFor(asked) : {};

  const ask = (what: Ask) => {
    settle();
    setAsked(what);
    const wrong = errorsFor(what);
    if (Object.keys(wrong).length === 0) {
      submit.mutate(BODIES[what](named(draft, modelChoices, gpuChoices), shape));
      return;
    }
    if (FURTHER_FIELDS.some((field) => field in wrong)) setMoreOpen(true);
    setAttempts((before) => before + 1);
  };
  const words = (what: Ask) => (submit.isPending && asked === what ? "Asking…" : WORDS[what]);
  const main = isForAllGpus ? "gpus" : "analysis";

  return (
    <form
      ref={form}
      aria-label={isForAllGpus ? "Compare all GPUs" : "Analyze a training"}
      noValidate
      className="card space-y-5 self-start p-5 sm:p-6"
      onSubmit={(event) => {
        event.preventDefault();
        ask(main);
      }}
    >
      <ModelField options={modelChoices} known={model} errors={errors} />
      {!isForAllGpus && <GpuField options={gpuChoices} />}
      <RecipeFields shape={shape} errors={errors} isForAllGpus={isForAllGpus} />
      <NumberField
        label="Your batch size today"
        unit="samples"
        value={draft.batchSize}
        error={errors.batchSize}
        onChange={(batchSize) => change({ batchSize })}
      />
      <MoreOptions
        model={model}
        shape={shape}
        errors={errors}
        isOpen={isMoreOpen}
        onOpenChange={setMoreOpen}
        isForAllGpus={isForAllGpus}
      />
      {/* The form is longer than a screen; its button, and what came of pressing it, are always in sight. */}
      <div className="sticky bottom-0 z-10 -mx-5 -my-3 space-y-3 bg-card px-5 py-3 sm:-mx-6 sm:px-6">
        {submit.isError && (
          <div className="max-h-[50dvh] overflow-y-auto">
            <ErrorBox problem={askProblem(submit.error)} onDismiss={submit.reset} />
          </div>
        )}
        <Button look="primary" isLarge type="submit" disabled={submit.isPending} className="w-full">
          {words(main)}
        </Button>
      </div>
      {!isForAllGpus && (
        <Button disabled={submit.isPending} onClick={() => ask("advice")} className="min-h-12 w-full">
          {words("advice")}
        </Button>
      )}
      <p className="-mt-2 text-center">
        <button
          type="button"
          onClick={() => {
            setAsked(null);
            change(FIRST_DRAFT);
          }}
          className="min-h-7 rounded px-1 text-xs text-soft underline hover:text-ink"
        >
          Start over
        </button>
      </p>
    </form>
  );
}

/** Chooses the server's GPU if it has one, as soon as that is known. */
function useDefaultGpu(): void {
  const { draft, change } = useDraft();
  const { data: gpus } = useGpus();
  const { data: health } = useHealth();
  useEffect(() => {
    if (!draft.gpu && gpus && health) change({ gpu: defaultGpu(gpus, health) });
  }, [draft.gpu, gpus, health, change]);
}

/** Takes whoever asked something wrong to the first field that says why. */
function useFirstWrongField(form: { readonly current: HTMLFormElement | null }, attempts: number): void {
  useEffect(() => {
    if (attempts === 0) return;
    // Further options that hold a wrong field open first.
    const frame = requestAnimationFrame(() => form.current?.querySelector<HTMLElement>("[aria-invalid=true]")?.focus());
    return () => cancelAnimationFrame(frame);
  }, [form, attempts]);
}
