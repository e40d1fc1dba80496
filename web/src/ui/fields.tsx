// Form fields: each has a label, may have a hint, and says what is wrong with it.
import * as RadixSelect from "@radix-ui/react-select";
import * as RadixSwitch from "@radix-ui/react-switch";
import * as RadixToggleGroup from "@radix-ui/react-toggle-group";
import { useId, type ReactNode } from "react";
import { CheckIcon, ChevronIcon } from "./icons";

interface FieldProps {
  label: string;
  hint?: ReactNode;
  /** What is wrong with the value; replaces the hint. */
  error?: ReactNode;
}

function Label({ htmlFor, id, children }: { htmlFor?: string; id?: string; children: ReactNode }) {
  return (
    <label htmlFor={htmlFor} id={id} className="mb-1.5 block text-sm font-medium">
      {children}
    </label>
  );
}

/** The hint or the fault, below the field. */
function Hint({ id, hint, error }: { id: string; hint?: ReactNode; error?: ReactNode }) {
  if (!error && !hint) return null;
  return (
    <div id={id} className={`mt-1 text-xs ${error ? "text-bad-ink" : "text-faint"}`}>
      {error ?? hint}
    </div>
  );
}

interface TextFieldProps extends FieldProps {
  value: string;
  onChange: (value: string) => void;
  unit?: string;
  placeholder?: string;
  disabled?: boolean;
}

interface NumberFieldProps extends TextFieldProps {
  /** Several numbers may be typed, for which a phone's number pad has no comma. */
  isList?: boolean;
}

/** A number as typed; whoever uses it decides what it means. */
export function NumberField({ isList = false, ...props }: NumberFieldProps) {
  return <TypedField {...props} inputMode={isList ? "text" : "decimal"} />;
}

/** A short text. */
export function TextField(props: TextFieldProps) {
  return <TypedField {...props} inputMode="text" />;
}

interface TypedFieldProps extends TextFieldProps {
  inputMode: "decimal" | "text";
}

function TypedField({ label, hint, error, unit, onChange, ...input }: TypedFieldProps) {
  const id = useId();
  const hintId = `${id}-hint`;
  return (
    <div>
      <Label htmlFor={id}>{label}</Label>
      <div className="relative">
        <input
          id={id}
          autoComplete="off"
          autoCapitalize="off"
          spellCheck={false}
          {...input}
          onChange={(event) => onChange(event.target.value)}
          aria-invalid={error ? true : undefined}
          aria-describedby={error || hint ? hintId : undefined}
          className={`field tabular-nums placeholder:text-faint ${unit ? "pr-16" : ""} ${error ? "border-bad" : ""}`}
        />
        {unit && (
          <span
            aria-hidden="true"
            className="pointer-events-none absolute inset-y-0 right-3 flex items-center text-sm text-faint"
          >
            {unit}
          </span>
        )}
      </div>
      <Hint id={hintId} hint={hint} error={error} />
    </div>
  );
}

export interface Choice<T extends string> {
  value: T;
  label: string;
  hint?: string;
}

interface ChoiceFieldProps<T extends string> extends FieldProps {
  value: T;
  choices: readonly Choice<T>[];
  onChange: (value: T) => void;
  disabled?: boolean;
}

/** One of a few, all in sight. */
export function SegmentField<T extends string>({ label, hint, error, value, choices, onChange, disabled }: ChoiceFieldProps<T>) {
  const id = useId();
  return (
    <div>
      <span id={id} className="mb-1.5 block text-sm font-medium">
        {label}
      </span>
      <RadixToggleGroup.Root
        type="single"
        value={value}
        onValueChange={(chosen) => chosen && onChange(chosen as T)}
        disabled={disabled}
        aria-labelledby={id}
        aria-describedby={error || hint ? `${id}-hint` : undefined}
        className="grid auto-cols-fr grid-flow-col gap-1 rounded-lg border border-edge bg-field p-1"
      >
        {choices.map((choice) => (
          <RadixToggleGroup.Item
            key={choice.value}
            value={choice.value}
            data-invalid={(Boolean(error) && choice.value === value) || undefined}
            className="flex min-h-9 flex-wrap items-center justify-center gap-x-1.5 rounded-md px-1 text-sm leading-tight text-soft transition-colors hover:text-ink data-[state=on]:bg-raised data-[state=on]:font-medium data-[state=on]:text-accent"
          >
            {choice.label}
            {choice.hint && <span className="font-mono text-xs opacity-90">{choice.hint}</span>}
          </RadixToggleGroup.Item>
        ))}
      </RadixToggleGroup.Root>
      <Hint id={`${id}-hint`} hint={hint} error={error} />
    </div>
  );
}

/** One of several, behind a button. */
export function SelectField<T extends string>({ label, hint, error, value, choices, onChange, disabled }: ChoiceFieldProps<T>) {
  const id = useId();
  return (
    <div>
      <Label htmlFor={id}>{label}</Label>
      <RadixSelect.Root value={value} onValueChange={(chosen) => onChange(chosen as T)} disabled={disabled}>
        <RadixSelect.Trigger
          id={id}
          aria-invalid={error ? true : undefined}
          aria-describedby={error || hint ? `${id}-hint` : undefined}
          className={`field flex items-center justify-between gap-2 text-left disabled:opacity-50 ${error ? "border-bad" : ""}`}
        >
          <span className="truncate">
            <RadixSelect.Value />
          </span>
          <RadixSelect.Icon>
            <ChevronIcon className="size-4 text-faint" />
          </RadixSelect.Icon>
        </RadixSelect.Trigger>
        <RadixSelect.Portal>
          <RadixSelect.Content
            position="popper"
            sideOffset={6}
            className="z-50 max-h-[var(--radix-select-content-available-height)] w-[var(--radix-select-trigger-width)] overflow-hidden rounded-lg border border-edge bg-card shadow-2xl shadow-black"
          >
            <RadixSelect.Viewport className="p-1">
              {choices.map((choice) => (
                <RadixSelect.Item
                  key={choice.value}
                  value={choice.value}
                  className="flex min-h-10 cursor-pointer items-center justify-between gap-2 rounded-md px-3 text-sm outline-none data-[highlighted]:bg-raised data-[state=checked]:text-accent"
                >
                  <RadixSelect.ItemText>{choice.label}</RadixSelect.ItemText>
                  <RadixSelect.ItemIndicator>
                    <CheckIcon className="size-4" />
                  </RadixSelect.ItemIndicator>
                </RadixSelect.Item>
              ))}
            </RadixSelect.Viewport>
          </RadixSelect.Content>
        </RadixSelect.Portal>
      </RadixSelect.Root>
      <Hint id={`${id}-hint`} hint={hint} error={error} />
    </div>
  );
}

interface SwitchFieldProps extends FieldProps {
  checked: boolean;
  onChange: (checked: boolean) => void;
  disabled?: boolean;
}

export function SwitchField({ label, hint, error, checked, onChange, disabled }: SwitchFieldProps) {
  const id = useId();
  return (
    <div className="flex items-start justify-between gap-4">
      <div className="min-w-0">
        <label htmlFor={id} className="text-sm font-medium">
          {label}
        </label>
        {(error || hint) && (
          <div id={`${id}-hint`} className={`text-xs ${error ? "text-bad-ink" : "text-faint"}`}>
            {error ?? hint}
          </div>
        )}
      </div>
      <RadixSwitch.Root
        id={id}
        checked={checked}
        onCheckedChange={onChange}
        disabled={disabled}
        aria-invalid={error ? true : undefined}
        aria-describedby={error || hint ? `${id}-hint` : undefined}
        className="relative h-6 w-11 shrink-0 rounded-full border border-edge bg-field transition-colors data-[state=checked]:border-accent data-[state=checked]:bg-accent disabled:opacity-50"
      >
        <RadixSwitch.Thumb className="block size-4 translate-x-1 rounded-full bg-soft transition-transform data-[state=checked]:translate-x-[1.375rem] data-[state=checked]:bg-black" />
      </RadixSwitch.Root>
    </div>
  );
}
