import { useEffect, useState } from "react";
import { useGpus, useHealth, useModels, useSubmit, useTasks } from "../hooks/queries";
import { useDraft } from "../hooks/use-draft";
import { adviseBody, allGpusBody, defaultGpu, draftBody, draftErrors } from "../logic/draft";
import { askProblem } from "../logic/problems";
import { sampleShape } from "../logic/sample";
import { Button } from "../ui/Button";
import { ErrorBox } from "../ui/ErrorBox";
import { NumberField } from "../ui/fields";
import { GpuField } from "./GpuField";
import { ModelField } from "./ModelField";
import { MoreOptions } from "./MoreOptions";
import { RecipeFields } from "./RecipeFields";

/** What can be asked about what the form holds. */
type Ask = "analysis" | "advice" | "gpus";
const WORDS = { analysis: "Analyze Memory Usage", advice: "What should I change?", gpus: "Compare All GPUs" };
const BODIES = { analysis: draftBody, advice: adviseBody, gpus: allGpusBody };

/** The question: which model, on which GPU, trained how, and with what batch size today. */
export function QuestionForm({ isForAllGpus = false }: { isForAllGpus?: boolean }) {
  const { draft, change } = useDraft();
  const { data: models } = useModels();
  const { data: tasks = [] } = useTasks();
  const submit = useSubmit();
  const [asked, setAsked] = useState<Ask | null>(null);
  useDefaultGpu();
  const model = draft.isPasted ? undefined : models?.find((entry) => entry.id === draft.model);
  const shape = sampleShape(draft, model, tasks);
  const errorsFor = (what: Ask) => draftErrors(draft, shape, what !== "analysis");
  const errors = asked ? errorsFor(asked) : {};

  const ask = (what: Ask) => {
    setAsked(what);
    if (Object.keys(errorsFor(what)).length === 0) submit.mutate(BODIES[what](draft, shape));
  };
  const words = (what: Ask) => (submit.isPending && asked === what ? "Asking…" : WORDS[what]);
  const main = isForAllGpus ? "gpus" : "analysis";

  return (
    <form
      aria-label={isForAllGpus ? "Compare all GPUs" : "Analyze a training"}
      noValidate
      className="card space-y-5 self-start p-5 sm:p-6"
      onSubmit={(event) => {
        event.preventDefault();
        ask(main);
      }}
    >
      <ModelField configError={errors.configText} />
      {!isForAllGpus && <GpuField value={draft.gpu} onChange={(gpu) => change({ gpu })} />}
      <RecipeFields shape={shape} errors={errors} isForAllGpus={isForAllGpus} />
      <NumberField
        label="Your batch size today"
        unit="samples"
        value={draft.batchSize}
        error={errors.batchSize}
        onChange={(batchSize) => change({ batchSize })}
      />
      <MoreOptions model={model} shape={shape} errors={errors} isForAllGpus={isForAllGpus} />
      {submit.isError && <ErrorBox problem={askProblem(submit.error)} onDismiss={submit.reset} />}
      <Button look="primary" isLarge type="submit" disabled={submit.isPending} className="w-full">
        {words(main)}
      </Button>
      {!isForAllGpus && (
        <Button disabled={submit.isPending} onClick={() => ask("advice")} className="-mt-2 min-h-12 w-full">
          {words("advice")}
        </Button>
      )}
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
