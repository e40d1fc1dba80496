import * as Collapsible from "@radix-ui/react-collapsible";
import type { Model } from "../api/types";
import { useTasks } from "../hooks/queries";
import { useDraft } from "../hooks/use-draft";
import { hasRevisions, isMeasured, type DraftErrors } from "../logic/draft";
import { sentence } from "../logic/problems";
import { FUSED_OPTIMIZERS, OPTIMIZERS } from "../logic/recipe";
import type { SampleShape } from "../logic/sample";
import { NumberField, SelectField, SwitchField, TextField } from "../ui/fields";
import { ChevronIcon } from "../ui/icons";
import { CostFields } from "./CostFields";
import { RareOptions } from "./RareOptions";

// A choice must have a value, and the draft's is empty.
const USUAL = "usual";
/** Those that can be wrong. */
export const FURTHER_FIELDS = [
  "accumulate",
  "lora",
  "marginPercent",
  "memoryGib",
  "maxBatch",
  "pricePerHour",
  "hoursPerRun",
  "runsPerYear",
  "people",
] as const;

interface MoreOptionsProps {
  model: Model | undefined;
  shape: SampleShape;
  errors: DraftErrors;
  isOpen: boolean;
  onOpenChange: (isOpen: boolean) => void;
  /** Without a GPU to choose there is none to measure on, and no memory to cap. */
  isForAllGpus?: boolean;
}

/** What most people need not set. */
export function MoreOptions({ model, shape, errors, isOpen, onOpenChange, isForAllGpus = false }: MoreOptionsProps) {
  const { draft, change } = useDraft();
  const isImage = shape.unit === "pixels";
  const canFuse = FUSED_OPTIMIZERS.includes(draft.optimizer);
  const canCompile = isMeasured(draft.gpu) && !isForAllGpus;
  return (
    <Collapsible.Root open={isOpen} onOpenChange={onOpenChange} className="rounded-lg border border-line">
      <Collapsible.Trigger className="group flex min-h-11 w-full items-center justify-between rounded-lg px-4 text-sm font-medium text-soft hover:text-ink">
        More options
        <ChevronIcon className="size-4 transition-transform group-data-[state=open]:rotate-180" />
      </Collapsible.Trigger>
      <Collapsible.Content className="space-y-4 border-t border-line p-4">
        <TaskField model={model} />
        {draft.isPasted && (
          <TextField
            label="Name"
            hint="What to call the model of the config."
            placeholder="none"
            value={draft.configName}
            onChange={(configName) => change({ configName })}
          />
        )}
        {hasRevisions(draft) && (
          <TextField
            label="Revision"
            hint="A branch, a tag or a commit on Hugging Face."
            placeholder="main"
            value={draft.revision}
            onChange={(revision) => change({ revision })}
          />
        )}
        <SwitchField
          label="torch.compile"
          hint={canCompile ? "Compiles the model first." : "Only where the GPU is measured: it cannot be predicted."}
          checked={draft.compile && canCompile}
          disabled={!canCompile}
          onChange={(compile) => change({ compile })}
        />
        <SwitchField
          label="TF32"
          hint="Faster, less exact fp32 matrix products."
          checked={draft.tf32}
          onChange={(tf32) => change({ tf32 })}
        />
        <SwitchField
          label="Fused optimizer"
          hint={canFuse ? "One kernel updates all weights." : `${OPTIMIZERS[draft.optimizer]} has no fused version.`}
          checked={draft.fused && canFuse}
          disabled={!canFuse}
          onChange={(fused) => change({ fused })}
        />
        <SwitchField
          label="channels_last"
          hint={isImage ? "The memory layout that suits convolutions." : "For image models."}
          checked={draft.channelsLast && isImage}
          disabled={!isImage}
          onChange={(channelsLast) => change({ channelsLast })}
        />
        <div className="grid grid-cols-2 gap-4">
          <NumberField
            label="Accumulate"
            unit="batches"
            hint="Per optimizer step."
            value={draft.accumulate}
            error={errors.accumulate}
            onChange={(accumulate) => change({ accumulate })}
          />
          <NumberField
            label="LoRA rank"
            hint="Trains adapters only."
            placeholder="none"
            value={draft.lora}
            error={errors.lora}
            onChange={(lora) => change({ lora })}
          />
          <NumberField
            label="Margin"
            unit="%"
            hint="Memory to leave free."
            value={draft.marginPercent}
            error={errors.marginPercent}
            onChange={(marginPercent) => change({ marginPercent })}
          />
          {!isForAllGpus && (
            <NumberField
              label="Memory cap"
              unit="GiB"
              hint="As on a smaller GPU."
              placeholder="none"
              value={draft.memoryGib}
              error={errors.memoryGib}
              onChange={(memoryGib) => change({ memoryGib })}
            />
          )}
        </div>
        <RareOptions errors={errors} isForAllGpus={isForAllGpus} />
        <CostFields errors={errors} isForAllGpus={isForAllGpus} />
      </Collapsible.Content>
    </Collapsible.Root>
  );
}

/** The head to train. */
function TaskField({ model }: { model: Model | undefined }) {
  const { draft, change } = useDraft();
  const { data: tasks = [] } = useTasks();
  const usual = tasks.find((task) => task.id === model?.task);
  const others = tasks.filter((task) => task !== usual);
  return (
    <SelectField
      label="Task"
      value={draft.task || USUAL}
      choices={[
        { value: USUAL, label: usual ? `The usual one: ${usual.title}` : "The usual one" },
        ...others.map((task) => ({ value: task.id, label: sentence(task.title) })),
      ]}
      onChange={(task) => change({ task: task === USUAL ? "" : task, sampleSize: "", sampleUnit: "" })}
    />
  );
}
