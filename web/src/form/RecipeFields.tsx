import type { Optimizer, Precision } from "../api/types";
import { useDraft } from "../hooks/use-draft";
import type { DraftErrors } from "../logic/draft";
import { OPTIMIZERS, PRECISIONS } from "../logic/recipe";
import { readSizes, type SampleShape } from "../logic/sample";
import { NumberField, SegmentField, SelectField, SwitchField } from "../ui/fields";

const PRECISION_CHOICES = Object.entries(PRECISIONS).map(([value, words]) => ({ value: value as Precision, ...words }));
const OPTIMIZER_CHOICES = Object.entries(OPTIMIZERS).map(([value, label]) => ({ value: value as Optimizer, label }));

interface RecipeFieldsProps {
  shape: SampleShape;
  errors: DraftErrors;
  isForAllGpus: boolean;
}

/** How the model is trained, in plain words. */
export function RecipeFields({ shape, errors, isForAllGpus }: RecipeFieldsProps) {
  const { draft, change } = useDraft();
  const mayBeSeveral = shape.unit === "tokens" && !isForAllGpus;
  return (
    <>
      <SegmentField
        label="Precision"
        value={draft.precision}
        choices={PRECISION_CHOICES}
        onChange={(precision) => change({ precision })}
      />
      <div className="grid grid-cols-[minmax(0,4fr)_minmax(0,5fr)] gap-4">
        <SelectField
          label="Optimizer"
          value={draft.optimizer}
          choices={OPTIMIZER_CHOICES}
          onChange={(optimizer) => change({ optimizer })}
        />
        <NumberField
          label={shape.label}
          // Several need the room of the unit.
          unit={(readSizes(draft.sampleSize)?.length ?? 0) > 1 ? undefined : shape.unit}
          isList={mayBeSeveral}
          hint={!shape.isSure ? "Images or sound? Set the task." : mayBeSeveral ? "Or several: 64, 256" : "\u00a0"}
          value={draft.sampleSize}
          placeholder={shape.usual?.toString() ?? "usual"}
          error={errors.sampleSize}
          onChange={(sampleSize) => change({ sampleSize })}
        />
      </div>
      <SwitchField
        label="Gradient checkpointing"
        hint={
          shape.unit === "pixels"
            ? "Less memory, more time. Not every image model has it."
            : "Less memory, more time: activations are computed twice."
        }
        checked={draft.checkpointing}
        onChange={(checkpointing) => change({ checkpointing })}
      />
    </>
  );
}
