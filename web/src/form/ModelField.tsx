import type { ReactNode } from "react";
import { useModels } from "../hooks/queries";
import { useDraft } from "../hooks/use-draft";
import { parameters } from "../logic/format";
import { Combobox, type Option } from "../ui/Combobox";
import { ConfigField } from "./ConfigField";

const TYPES: Record<string, string> = {
  nlp: "Language",
  vision: "Vision",
  audio: "Sound",
  multimodal: "Several senses",
};

// org/name of Hugging Face, or a model of timm.
const ANY_MODEL = /^(timm:[\w.-]+|[\w.-]+\/[\w.-]+)$/;

/** What is trained: a model by its name, or by its config. */
export function ModelField({ configError }: { configError: string | undefined }) {
  const { draft, change } = useDraft();
  // Sizes, heads and revisions are the model's: another model has others.
  const forget = { sampleSize: "", task: "", revision: "" };
  return (
    <div className="relative">
      {draft.isPasted ? (
        <ConfigField value={draft.configText} onChange={(configText) => change({ configText })} error={configError} />
      ) : (
        <NameField value={draft.model} onChange={(model) => change({ model, ...forget })} />
      )}
      <SwitchButton onClick={() => change({ isPasted: !draft.isPasted, ...forget })}>
        {draft.isPasted ? "Choose by name" : "Paste a config.json"}
      </SwitchButton>
    </div>
  );
}

/** Stands at the right of the label. */
function SwitchButton({ onClick, children }: { onClick: () => void; children: ReactNode }) {
  return (
    <button
      type="button"
      onClick={onClick}
      className="absolute -top-1 right-0 min-h-7 rounded px-1 text-xs text-soft underline hover:text-ink"
    >
      {children}
    </button>
  );
}

function NameField({ value, onChange }: { value: string; onChange: (model: string) => void }) {
  const { data: models = [] } = useModels();
  const options: Option[] = models.map((model) => ({
    value: model.id,
    label: model.name,
    note: model.huggingface_id,
    detail: parameters(model.parameters),
    group: TYPES[model.type] ?? model.type,
    keywords: model.description,
  }));
  const known = models.find((model) => model.id === value);
  return (
    <Combobox
      label="Model"
      options={options}
      value={value}
      onChange={onChange}
      placeholder="A name or a Hugging Face id"
      hint={known?.description ?? (value && models.length > 0 ? "Built from its config, with random weights." : "\u00a0")}
      custom={(typed) => (ANY_MODEL.test(typed) ? { value: typed, label: typed, group: "By its name" } : null)}
      nothing={(typed) => `No model of the catalog matches “${typed}”. A Hugging Face id looks like org/name.`}
    />
  );
}
