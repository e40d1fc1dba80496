import type { Model, Optimizer, Precision } from "../api/types";
import { useDraft } from "../hooks/use-draft";
import { usualSampleSize, type DraftErrors } from "../logic/draft";
import { OPTIMIZERS, PRECISIONS } from "../logic/recipe";
import { NumberField, SegmentField, SelectField, SwitchField } from "../ui/fields";

const PRECISION_CHOICES = Object.entries(PRECISIONS).map(([value, words]) => ({ value: value as Precision, ...words }));
const OPTIMIZER_CHOICES = Object.entries(OPTIMIZERS).map(([value, label]) => ({ value: value as Optimizer, label }));

const SAMPLE_SIZES: Record<string, [name: string, unit: string]> = {
  vision: ["Image size", "pixels"],
  audio: ["Sound length", "seconds"],
};

interface RecipeFieldsProps {
  model: Model | undefined;
  errors: DraftErrors;
}

/** How the model is trained, in plain words. */
export function RecipeFields({ model, errors }: RecipeFieldsProps) {
  const { draft, change } = useDraft();
  const [sizeName, sizeUnit] = SAMPLE_SIZES[model?.type ?? ""] ?? ["Sequence length", "tokens"];
  return (
    <>
      <SegmentField
        label="Precision"
        value={draft.precision}
        choices={PRECISION_CHOICES}
        onChange={(precision) => change({ precision })}
      />
      <div className="grid grid-cols-2 gap-4">
        <SelectField
          label="Optimizer"
          value={draft.optimizer}
          choices={OPTIMIZER_CHOICES}
          onChange={(optimizer) => change({ optimizer })}
        />
        <NumberField
          label={sizeName}
          unit={sizeUnit}
          value={draft.sampleSize}
          placeholder={usualSampleSize(model)}
          error={errors.sampleSize}
          onChange={(sampleSize) => change({ sampleSize })}
        />
      </div>
      <SwitchField
        label="Gradient checkpointing"
        hint={
          model?.type === "vision"
            ? "Less memory, more time. Not every image model has it."
            : "Less memory, more time: activations are computed twice."
        }
        checked={draft.checkpointing}
        onChange={(checkpointing) => change({ checkpointing })}
      />
    </>
  );
}
