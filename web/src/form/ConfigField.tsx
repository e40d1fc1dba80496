import { useId } from "react";
import { configWords, readConfig } from "./config-text";
import type { FieldFault } from "./faults";
import { FaultText } from "./FaultText";

interface ConfigFieldProps {
  value: string;
  onChange: (value: string) => void;
  /** What is wrong, once the question was asked; a text that is there is judged at once. */
  fault: FieldFault | undefined;
}

/** Any model, by the content of its config.json. */
export function ConfigField({ value, onChange, fault }: ConfigFieldProps) {
  const id = useId();
  const { config, error } = readConfig(value);
  const shown = value.trim() !== "" && error ? { text: error, suggestions: [] } : fault;
  return (
    <div>
      <label htmlFor={id} className="mb-1.5 block text-sm font-medium">
        Model: its config.json
      </label>
      <textarea
        id={id}
        rows={7}
        spellCheck={false}
        autoCapitalize="off"
        autoComplete="off"
        value={value}
        onChange={(event) => onChange(event.target.value)}
        placeholder={'{\n  "model_type": "llama",\n  "hidden_size": 4096,\n  …\n}'}
        aria-invalid={shown ? true : undefined}
        aria-describedby={`${id}-hint`}
        className={`field block resize-y py-2 font-mono text-xs leading-5 placeholder:text-faint ${shown ? "border-bad" : ""}`}
      />
      <div id={`${id}-hint`} role="status" className={`mt-1 text-xs ${shown ? "text-bad-ink" : "text-faint"}`}>
        {shown ? (
          <FaultText fault={shown} />
        ) : config ? (
          `${configWords(config)}. Built with random weights.`
        ) : (
          "The file that transformers writes."
        )}
      </div>
    </div>
  );
}
