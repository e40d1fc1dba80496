import { useEffect, useState } from "react";
import { useGpus, useHealth, useModels, useSubmit } from "../hooks/queries";
import { useDraft } from "../hooks/use-draft";
import { allGpusBody, defaultGpu, draftBody, draftErrors } from "../logic/draft";
import { askProblem } from "../logic/problems";
import { Button } from "../ui/Button";
import { ErrorBox } from "../ui/ErrorBox";
import { NumberField } from "../ui/fields";
import { AdvancedFields } from "./AdvancedFields";
import { GpuField } from "./GpuField";
import { ModelField } from "./ModelField";
import { RecipeFields } from "./RecipeFields";

/** The question: which model, on which GPU, trained how, and with what batch size today. */
export function QuestionForm({ isForAllGpus = false }: { isForAllGpus?: boolean }) {
  const { draft, change } = useDraft();
  const { data: models } = useModels();
  const submit = useSubmit();
  const [isChecked, setChecked] = useState(false);
  useDefaultGpu();
  const model = models?.find((entry) => entry.id === draft.model);
  const errors = isChecked ? draftErrors(draft) : {};

  const ask = () => {
    setChecked(true);
    if (Object.keys(draftErrors(draft)).length > 0) return;
    submit.mutate(isForAllGpus ? allGpusBody(draft, model) : draftBody(draft, model));
  };

  return (
    <form
      aria-label={isForAllGpus ? "Compare all GPUs" : "Analyze a training"}
      noValidate
      className="card space-y-5 self-start p-5 sm:p-6"
      onSubmit={(event) => {
        event.preventDefault();
        ask();
      }}
    >
      <ModelField value={draft.model} onChange={(chosen) => change({ model: chosen, sampleSize: "" })} />
      {!isForAllGpus && <GpuField value={draft.gpu} onChange={(gpu) => change({ gpu })} />}
      <RecipeFields model={model} errors={errors} />
      <NumberField
        label="Your batch size today"
        unit="samples"
        value={draft.batchSize}
        error={errors.batchSize}
        onChange={(batchSize) => change({ batchSize })}
      />
      <AdvancedFields model={model} errors={errors} isForAllGpus={isForAllGpus} />
      {submit.isError && <ErrorBox problem={askProblem(submit.error)} onDismiss={submit.reset} />}
      <Button look="primary" isLarge type="submit" disabled={submit.isPending} className="w-full">
        {submit.isPending ? "Asking…" : isForAllGpus ? "Compare All GPUs" : "Analyze Memory Usage"}
      </Button>
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
