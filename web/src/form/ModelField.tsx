import { useModels } from "../hooks/queries";
import { parameters } from "../logic/format";
import { Combobox, type Option } from "../ui/Combobox";

const TYPES: Record<string, string> = {
  nlp: "Language",
  vision: "Vision",
  audio: "Sound",
  multimodal: "Several senses",
};

// org/name of Hugging Face, or a model of timm.
const ANY_MODEL = /^(timm:[\w.-]+|[\w.-]+\/[\w.-]+)$/;

interface ModelFieldProps {
  value: string;
  onChange: (model: string) => void;
}

export function ModelField({ value, onChange }: ModelFieldProps) {
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
      hint={known?.description ?? (value ? "Built from its config, with random weights." : "\u00a0")}
      custom={(typed) => (ANY_MODEL.test(typed) ? { value: typed, label: typed, group: "By its name" } : null)}
      nothing={(typed) => `No model of the catalog matches “${typed}”. A Hugging Face id looks like org/name.`}
    />
  );
}
