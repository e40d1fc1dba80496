import type { ReactNode } from "react";
import { isWide } from "./option";
import type { Faults } from "./faults";
import { OptionField } from "./OptionField";
import { rowsOf } from "./rows";
import type { SampleShape } from "./sample";
import { listedOptions, type Situation } from "./situation";
import { SizeField } from "./SizeField";

interface MainFieldsProps {
  situation: Situation;
  shape: SampleShape | null;
  faults: Faults;
}

/** What most people set: how the model is trained, on how large a sample, and the batch of today. */
export function MainFields({ situation, shape, faults }: MainFieldsProps) {
  const options = listedOptions(situation).filter((option) => !option.rare);
  const cells = options.map((option) => ({
    name: option.name,
    isWide: isWide(option),
    isRecipe: option.group === "recipe",
    content: <OptionField option={option} situation={situation} fault={faults[option.name]} />,
  }));
  const size = shape && {
    name: shape.option.name,
    isWide: false,
    content: <SizeField shape={shape} fault={faults[shape.option.name]} isForAllGpus={situation.isForAllGpus} />,
  };
  const recipe = cells.filter((cell) => cell.isRecipe);
  const others = cells.filter((cell) => !cell.isRecipe);
  return rowsOf<Cell>([...recipe, ...(size ? [size] : []), ...others]).map((row) => (
    <div
      key={row[0]!.name}
      className={row.length > 1 ? "grid grid-cols-[minmax(0,4fr)_minmax(0,5fr)] gap-4" : undefined}
    >
      {row.map((cell) => (
        <div key={cell.name} data-field={cell.name}>
          {cell.content}
        </div>
      ))}
    </div>
  ));
}

interface Cell {
  name: string;
  isWide: boolean;
  content: ReactNode;
}
