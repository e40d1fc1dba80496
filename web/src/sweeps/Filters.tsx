import type { SweepAxis } from "../api/types";
import { SegmentField, SelectField, SwitchField, TextField } from "../ui/fields";
import { shortGpuName } from "../shared/format";
import { valueKey, type View } from "./cases";

// Radix takes no empty value; keys of values begin with another sign.
const ANY = "*";
const KEY = "=";
const ORDERS = [
  { value: "given", label: "As listed" },
  { value: "speed", label: "Speed" },
  { value: "cost", label: "Cost" },
  { value: "batch", label: "Batch" },
] as const;

interface FiltersProps {
  axes: readonly SweepAxis[];
  view: View;
  onChange: (view: View) => void;
}

/** What of a sweep to show: a field for each option that varies. */
export function Filters({ axes, view, onChange }: FiltersProps) {
  const choose = (name: string, value: string) => {
    const { [name]: _, ...others } = view.chosen;
    onChange({ ...view, chosen: value === ANY ? others : { ...others, [name]: value.slice(KEY.length) } });
  };
  return (
    <div className="grid grid-cols-2 items-end gap-4 lg:grid-cols-4 print:hidden">
      {axes.map((axis) => (
        <SelectField
          key={axis.name}
          label={axis.title}
          value={axis.name in view.chosen ? `${KEY}${view.chosen[axis.name]}` : ANY}
          choices={[
            { value: ANY, label: "Any" },
            ...axis.values.map(({ value, label }) => ({ value: `${KEY}${valueKey(value)}`, label: shortGpuName(label) })),
          ]}
          onChange={(chosen) => choose(axis.name, chosen)}
        />
      ))}
      <TextField
        label="Search"
        value={view.search}
        onChange={(search) => onChange({ ...view, search })}
        placeholder="A model, a GPU, an error"
      />
      <div className="col-span-2">
        <SegmentField label="Sort by" value={view.order} choices={ORDERS} onChange={(order) => onChange({ ...view, order })} />
      </div>
      <div className="col-span-2 flex min-h-11 items-center lg:col-span-1">
        <div className="grow">
          <SwitchField
            label="Only what fits"
            checked={view.onlyFitting}
            onChange={(onlyFitting) => onChange({ ...view, onlyFitting })}
          />
        </div>
      </div>
    </div>
  );
}
