import { useModels } from "../hooks/queries";
import { parameters } from "../logic/format";
import { Combobox, type Option } from "../ui/Combobox";

const TYPES: Record<string, string> = { nlp: "Language", vision: "Vision" };

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
      hint={known?.description ?? "\u00a0"}
      nothing={(typed) =>
        `This server does not know “${typed}”. It knows ${models.map((model) => model.huggingface_id).join(", ")}.`
      }
    />
  );
}
