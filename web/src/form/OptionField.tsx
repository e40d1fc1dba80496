import { useState } from "react";
import type { Option } from "../api/types";
import { NumberField, SegmentField, SelectField, SwitchField, TextField } from "../ui/fields";
import { textIn, withText } from "./draft";
import type { FieldFault } from "./faults";
import { FaultText } from "./FaultText";
import { choicesOf, controlOf, OPEN, valueOf } from "./option";
import { whyNot, type Situation } from "./situation";
import { useDraft } from "./use-draft";

interface OptionFieldProps {
  option: Option;
  situation: Situation;
  fault: FieldFault | undefined;
}

/** The control of an option, made from its declaration. */
export function OptionField({ option, situation, fault }: OptionFieldProps) {
  const { draft, update } = useDraft();
  const reason = whyNot(option, situation);
  const field = {
    label: option.title,
    hint: reason ?? hintOf(option),
    error: fault && <FaultText fault={fault} />,
    disabled: reason !== null,
  };
  const text = textIn(draft, option);
  const set = (next: string) => update((before) => withText(before, option, next));
  const typed = { ...field, value: text, onChange: set, unit: option.unit, placeholder: placeholderOf(option) };
  const chosen = {
    ...field,
    value: text || OPEN,
    choices: choicesOf(option),
    onChange: (value: string) => set(value === OPEN ? "" : value),
  };
  switch (controlOf(option)) {
    case "switch":
      return <SwitchField {...field} checked={text === "true" && reason === null} onChange={(on) => set(String(on))} />;
    case "segments":
      return <SegmentField {...chosen} />;
    case "select":
      return <SelectField {...chosen} />;
    case "percent":
      return <PercentField {...typed} />;
    case "number":
      return <NumberField {...typed} />;
    case "list":
      return <NumberField {...typed} isList />;
    case "text":
      return <TextField {...typed} />;
  }
}

/** Common options need no hint, except switches. */
function hintOf(option: Option): string | undefined {
  return option.rare || option.type === "names" || controlOf(option) === "switch" ? option.help : undefined;
}

function placeholderOf(option: Option): string | undefined {
  return valueOf(option, "") === undefined ? undefined : "none";
}

/** A part of something, typed in percent. */
function PercentField({ value, onChange, ...field }: Parameters<typeof NumberField>[0]) {
  const [typed, setTyped] = useState<string | null>(null);
  const type = (text: string) => {
    setTyped(text);
    onChange(scaled(text, 0.01));
  };
  return (
    <div onBlur={() => setTyped(null)}>
      <NumberField {...field} unit="%" value={typed ?? scaled(value, 100)} onChange={type} />
    </div>
  );
}

/** Scales a number without noise such as 0.30000000000000004; other text stays as it is. */
function scaled(text: string, factor: number): string {
  const number = Number(text);
  return text.trim() === "" || !Number.isFinite(number) ? text : String(Number((number * factor).toPrecision(12)));
}
