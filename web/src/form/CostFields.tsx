import { useDraft } from "../hooks/use-draft";
import type { DraftErrors } from "../logic/draft";
import { NumberField } from "../ui/fields";

/** What a run costs. */
export function CostFields({ errors, isForAllGpus }: { errors: DraftErrors; isForAllGpus: boolean }) {
  const { draft, change } = useDraft();
  return (
    <div className="grid grid-cols-2 gap-4">
      {!isForAllGpus && (
        <NumberField
          label="Price"
          unit="$/h"
          placeholder="catalog"
          value={draft.pricePerHour}
          error={errors.pricePerHour}
          onChange={(pricePerHour) => change({ pricePerHour })}
        />
      )}
      <NumberField
        label="A run today"
        unit="hours"
        value={draft.hoursPerRun}
        error={errors.hoursPerRun}
        onChange={(hoursPerRun) => change({ hoursPerRun })}
      />
      <NumberField
        label="Runs a year"
        value={draft.runsPerYear}
        error={errors.runsPerYear}
        onChange={(runsPerYear) => change({ runsPerYear })}
      />
      <NumberField
        label="People"
        hint="Who train as much."
        value={draft.people}
        error={errors.people}
        onChange={(people) => change({ people })}
      />
    </div>
  );
}
