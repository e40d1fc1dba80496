import * as Collapsible from "@radix-ui/react-collapsible";
import type { ReactNode } from "react";
import type { Model, Option } from "../api/types";
import { ChevronIcon } from "../ui/icons";
import type { Faults } from "./faults";
import { MODEL_OPTIONS, ModelOptions } from "./ModelOptions";
import { isWide } from "./option";
import { OptionField } from "./OptionField";
import { listedOptions, type Situation } from "./situation";

const TITLES: Record<Option["group"], string> = {
  model: "Model",
  sample: "Sample",
  recipe: "Training",
  target: "GPU",
  question: "Search",
  usage: "Cost",
  run: "Job",
};

interface MoreOptionsProps {
  model: Model | undefined;
  situation: Situation;
  faults: Faults;
  isOpen: boolean;
  onOpenChange: (isOpen: boolean) => void;
}

/** Whether a field in here is wrong. */
export function holdsFault(situation: Situation, faults: Faults): boolean {
  const rare = listedOptions(situation).filter((option) => option.rare);
  return [...MODEL_OPTIONS, ...rare.map((option) => option.name)].some((name) => faults[name]);
}

/** What most people need not set, by group. */
export function MoreOptions({ model, situation, faults, isOpen, onOpenChange }: MoreOptionsProps) {
  const rare = listedOptions(situation).filter((option) => option.rare);
  const groups = [...new Set<Option["group"]>(["model", ...rare.map((option) => option.group)])];
  return (
    <Collapsible.Root open={isOpen} onOpenChange={onOpenChange} className="rounded-lg border border-line">
      <Collapsible.Trigger className="group flex min-h-11 w-full items-center justify-between rounded-lg px-4 text-sm font-medium text-soft hover:text-ink">
        More options
        <ChevronIcon className="size-4 transition-transform group-data-[state=open]:rotate-180" />
      </Collapsible.Trigger>
      <Collapsible.Content className="divide-y divide-line border-t border-line">
        {groups.map((group) => (
          <Group key={group} title={TITLES[group]}>
            {group === "model" && <ModelOptions model={model} options={situation.options} faults={faults} />}
            <GroupFields options={rare.filter((option) => option.group === group)} situation={situation} faults={faults} />
          </Group>
        ))}
      </Collapsible.Content>
    </Collapsible.Root>
  );
}

function Group({ title, children }: { title: string; children: ReactNode }) {
  return (
    <div role="group" aria-label={title} className="space-y-4 p-4">
      <p aria-hidden="true" className="text-xs font-medium text-faint">
        {title}
      </p>
      {children}
    </div>
  );
}

/** Switches one below the other, then what is typed or chosen, side by side; a last one has its row for itself. */
function GroupFields({ options, situation, faults }: { options: Option[] } & Pick<MoreOptionsProps, "situation" | "faults">) {
  const field = (option: Option) => (
    <div key={option.name} data-field={option.name}>
      <OptionField option={option} situation={situation} fault={faults[option.name]} />
    </div>
  );
  const narrow = options.filter((option) => !isWide(option));
  return (
    <>
      {options.filter(isWide).map(field)}
      {narrow.length > 0 && <div className="grid grid-cols-2 gap-4 [&>:last-child:nth-child(odd)]:col-span-2">{narrow.map(field)}</div>}
    </>
  );
}
