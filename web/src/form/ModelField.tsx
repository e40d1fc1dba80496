import type { ReactNode } from "react";
import type { Model } from "../api/types";
import { useDraft } from "../hooks/use-draft";
import { otherModel, wrongModel } from "../logic/asked-names";
import type { DraftErrors } from "../logic/draft";
import type { Option } from "../logic/options";
import { Combobox } from "../ui/Combobox";
import { ConfigField } from "./ConfigField";
import { DidYouMean } from "./DidYouMean";

interface ModelFieldProps {
  options: readonly Option[];
  /** The model of the catalog that is named, if one is. */
  known: Model | undefined;
  errors: DraftErrors;
}

/** What is trained: a model by its name, or by its config. */
export function ModelField({ options, known, errors }: ModelFieldProps) {
  const { draft, change } = useDraft();
  // Sizes, heads and revisions are the model's: another model has others.
  const forget = { sampleSize: "", sampleUnit: "", task: "", revision: "" } as const;
  return (
    <div className="relative">
      <SwitchButton onClick={() => change({ isPasted: !draft.isPasted, ...forget })}>
        {draft.isPasted ? "Choose by name" : "Paste a config.json"}
      </SwitchButton>
      {draft.isPasted ? (
        <ConfigField
          value={draft.configText}
          onChange={(configText) => change({ configText })}
          error={errors.configText}
        />
      ) : (
        <NameField
          options={options}
          known={known}
          value={draft.model}
          error={errors.model}
          onChange={(model) => change({ model, ...forget })}
        />
      )}
    </div>
  );
}

/** Stands at the right of the label, and so comes before the field for the keyboard too. */
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

interface NameFieldProps {
  options: readonly Option[];
  known: Model | undefined;
  value: string;
  error: string | undefined;
  onChange: (model: string) => void;
}

function NameField({ options, known, value, error, onChange }: NameFieldProps) {
  const wrong = wrongModel(options, value);
  return (
    <Combobox
      label="Model"
      options={options}
      value={value}
      onChange={onChange}
      keepsText
      placeholder="A name or a Hugging Face id"
      custom={otherModel}
      error={wrong ? <DidYouMean wrong={wrong} onChoose={onChange} /> : error}
      hint={
        known?.description ?? (value && options.length > 0 ? "Built from its config, with random weights." : "\u00a0")
      }
      nothing={(typed) => `No model of the catalog matches “${typed}”. A Hugging Face id looks like org/name.`}
    />
  );
}
