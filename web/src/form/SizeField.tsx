import { NumberField } from "../ui/fields";
import { textIn, withText } from "./draft";
import type { FieldFault } from "./faults";
import { FaultText } from "./FaultText";
import { readCounts } from "./option";
import type { SampleShape } from "./sample";
import { useDraft } from "./use-draft";

interface SizeFieldProps {
  shape: SampleShape;
  fault: FieldFault | undefined;
  isForAllGpus: boolean;
}

/** The size of a sample, or several lengths. */
export function SizeField({ shape, fault, isForAllGpus }: SizeFieldProps) {
  const { draft, update } = useDraft();
  const mayBeSeveral = shape.unit === "tokens" && !isForAllGpus;
  const text = textIn(draft, shape.option);
  return (
    <NumberField
      label={shape.option.title}
      // Several need the room of the unit.
      unit={(readCounts(text)?.length ?? 0) > 1 ? undefined : shape.option.unit}
      isList={mayBeSeveral}
      hint={!shape.isSure ? "Images or audio? Set the task." : mayBeSeveral ? "Or several: 64, 256" : undefined}
      value={text}
      placeholder={shape.usual?.toString() ?? "default"}
      error={fault && <FaultText fault={fault} />}
      onChange={(next) => update((before) => withText(before, shape.option, next))}
    />
  );
}
