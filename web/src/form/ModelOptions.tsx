import type { Model, Option } from "../api/types";
import { useTasks } from "../api/queries";
import { capitalized } from "../shared/text";
import { SelectField, SwitchField, TextField } from "../ui/fields";
import { textIn, withText, without } from "./draft";
import type { Faults } from "./faults";
import { FaultText } from "./FaultText";
import { kindOfName } from "./model-names";
import { isSampleSize, OPEN } from "./option";
import { useDraft } from "./use-draft";

export const MODEL_OPTIONS = ["task", "revision", "trust_remote_code"] as const;

interface ModelOptionsProps {
  model: Model | undefined;
  options: readonly Option[];
  faults: Faults;
}

/** What else may be said of a model: its head, its name, its revision, its code. */
export function ModelOptions({ model, options, faults }: ModelOptionsProps) {
  const { draft, update, change } = useDraft();
  const { data: tasks = [] } = useTasks();
  const usual = tasks.find((task) => task.id === model?.task);
  const fields = MODEL_OPTIONS.map((name) => {
    const option = options.find((one) => one.name === name);
    return option && {
      label: option.title,
      hint: option.help,
      error: faults[name] && <FaultText fault={faults[name]} />,
      value: textIn(draft, option),
      onChange: (text: string) => update((before) => withText(before, option, text)),
    };
  });
  const [task, revision, code] = fields;
  // Sizes are the task's: another task counts others.
  const isSize = (name: string) => options.some((one) => one.name === name && isSampleSize(one));
  return (
    <>
      {task && (
        <div data-field="task">
          <SelectField
            {...task}
            value={task.value || OPEN}
            choices={[
              { value: OPEN, label: usual ? `Default: ${usual.title}` : "Default" },
              ...tasks.filter((one) => one !== usual).map((one) => ({ value: one.id, label: capitalized(one.title) })),
            ]}
            onChange={(chosen) => {
              update((before) => without(before, isSize));
              task.onChange(chosen === OPEN ? "" : chosen);
            }}
          />
        </div>
      )}
      {draft.isPasted && (
        <TextField
          label="Name"
          hint="What to call the pasted model."
          placeholder="none"
          value={draft.configName}
          onChange={(configName) => change({ configName })}
        />
      )}
      {revision && !draft.isPasted && kindOfName(draft.model) === "hub" && (
        <div data-field="revision">
          <TextField {...revision} placeholder="main" />
        </div>
      )}
      {code && code.value === "true" && (
        <div data-field="trust_remote_code">
          <SwitchField {...code} checked onChange={(on) => code.onChange(String(on))} />
        </div>
      )}
    </>
  );
}
