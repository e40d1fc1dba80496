import type { ReactNode } from "react";
import { Combobox } from "../ui/Combobox";
import { ConfigField } from "./ConfigField";
import { without, type Draft } from "./draft";
import type { FieldFault } from "./faults";
import { FaultText } from "./FaultText";
import { otherModel } from "./model-names";
import { isSampleSize } from "./option";
import { useDraft } from "./use-draft";
import type { FormState } from "./use-form-state";

interface ModelFieldProps {
  state: FormState;
  fault: FieldFault | undefined;
}

/** What is trained: a model by its name, or by its config. */
export function ModelField({ state, fault }: ModelFieldProps) {
  const { draft, update, change } = useDraft();
  const { models: entries, model: known, situation } = state;
  // Sizes, heads and revisions are the model's: another model has others.
  const isModels = (name: string) =>
    ["task", "revision"].includes(name) || situation.options.some((option) => option.name === name && isSampleSize(option));
  const changeModel = (changes: Partial<Draft>) => update((before) => ({ ...without(before, isModels), ...changes }));
  return (
    <div className="relative">
      <SwitchButton onClick={() => changeModel({ isPasted: !draft.isPasted })}>
        {draft.isPasted ? "Choose by name" : "Paste a config.json"}
      </SwitchButton>
      {draft.isPasted ? (
        <ConfigField value={draft.configText} onChange={(configText) => change({ configText })} fault={fault} />
      ) : (
        <Combobox
          label="Model"
          entries={entries}
          value={draft.model}
          onChange={(model) => changeModel({ model })}
          keepsText
          placeholder="A name or a Hugging Face id"
          custom={otherModel}
          error={fault && <FaultText fault={fault} />}
          hint={
            known?.description ??
            (draft.model && entries.length > 0 ? "Built from its config, with random weights." : "\u00a0")
          }
          nothing={(typed) => `No model in the catalog matches “${typed}”. A Hugging Face id looks like org/name.`}
        />
      )}
    </div>
  );
}

/** Stands to the right of the label, so it also precedes the field in the tab order. */
function SwitchButton({ onClick, children }: { onClick: () => void; children: ReactNode }) {
  return (
    <button
      type="button"
      onClick={onClick}
      className="absolute -top-1 right-0 z-10 min-h-7 rounded px-1 text-xs text-soft underline hover:text-ink"
    >
      {children}
    </button>
  );
}
