import { useGpus, useHealth, useModels, useOptions, useTasks } from "../api/queries";
import type { Model } from "../api/types";
import { valueNamed, type Entry } from "../ui/entries";
import { gpuEntries, isMeasured } from "./gpu-names";
import { knownModel, modelEntries } from "./model-names";
import { sampleShape, type SampleShape } from "./sample";
import type { Situation } from "./situation";
import { useDraft } from "./use-draft";

export interface FormState {
  situation: Situation;
  shape: SampleShape | null;
  models: Entry[];
  gpus: Entry[];
  /** The model of the catalog that is named, if one is. */
  model: Model | undefined;
  /** Whether it is known what can be asked for. */
  isReady: boolean;
}

/** The draft, with what the service says of the model, the GPU and the options. */
export function useFormState(isForAllGpus: boolean): FormState {
  const { draft } = useDraft();
  const { data: models = [] } = useModels();
  const { data: gpus = [] } = useGpus();
  const { data: health } = useHealth();
  const { data: tasks = [] } = useTasks();
  const { data: options = [] } = useOptions();
  const model = draft.isPasted ? undefined : knownModel(models, draft.model);
  const shape = sampleShape(draft, model, tasks, options);
  const entries = gpuEntries(gpus, health);
  const gpu = valueNamed(entries, draft.gpu);
  const unit = shape?.isSure ? shape.unit : null;
  return {
    situation: { draft, options, unit, isMeasured: isMeasured(gpu), isForAllGpus },
    shape,
    models: modelEntries(models),
    gpus: entries,
    model,
    isReady: options.length > 0,
  };
}
