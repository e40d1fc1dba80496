import * as Collapsible from "@radix-ui/react-collapsible";
import type { Model } from "../api/types";
import { useDraft } from "../hooks/use-draft";
import { isMeasured, type DraftErrors } from "../logic/draft";
import { FUSED_OPTIMIZERS, OPTIMIZERS } from "../logic/recipe";
import { NumberField, SwitchField } from "../ui/fields";
import { ChevronIcon } from "../ui/icons";

interface AdvancedFieldsProps {
  model: Model | undefined;
  errors: DraftErrors;
  /** Without a GPU to choose there is none to measure on, and no memory to cap. */
  isForAllGpus?: boolean;
}

export function AdvancedFields({ model, errors, isForAllGpus = false }: AdvancedFieldsProps) {
  const { draft, change } = useDraft();
  const isImage = model?.type === "vision";
  const canFuse = FUSED_OPTIMIZERS.includes(draft.optimizer);
  const canCompile = isMeasured(draft.gpu) && !isForAllGpus;
  return (
    <Collapsible.Root className="rounded-lg border border-line">
      <Collapsible.Trigger className="group flex min-h-11 w-full items-center justify-between rounded-lg px-4 text-sm font-medium text-soft hover:text-ink">
        Advanced
        <ChevronIcon className="size-4 transition-transform group-data-[state=open]:rotate-180" />
      </Collapsible.Trigger>
      <Collapsible.Content className="space-y-4 border-t border-line p-4">
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
      </Collapsible.Content>
    </Collapsible.Root>
  );
}
