import { useHealth } from "../api/queries";
import { Combobox } from "../ui/Combobox";
import { valueNamed, type Entry } from "../ui/entries";
import type { FieldFault } from "./faults";
import { FaultText } from "./FaultText";
import { isMeasured, otherDevice } from "./gpu-names";
import { useDraft } from "./use-draft";

/** Where it trains. */
export function GpuField({ entries, fault }: { entries: readonly Entry[]; fault: FieldFault | undefined }) {
  const { draft, change } = useDraft();
  const { data: health } = useHealth();
  const chosen = valueNamed(entries, draft.gpu);
  return (
    <Combobox
      label="GPU"
      entries={entries}
      value={draft.gpu}
      onChange={(gpu) => change({ gpu })}
      keepsText
      custom={otherDevice}
      error={fault && <FaultText fault={fault} />}
      hint={
        !chosen
          ? "\u00a0"
          : health?.recording
            ? "Recorded: only the recorded question is played."
            : isMeasured(chosen)
              ? "Measured: real training steps on the server's GPU."
              : "Predicted: the server does not have this GPU."
      }
      nothing={(typed) => `No GPU matches “${typed}”.`}
    />
  );
}
