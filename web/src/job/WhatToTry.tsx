import { useOptions } from "../api/queries";
import type { Job, Suggestion, Values } from "../api/types";
import { AskAdvice } from "../result/AskAdvice";
import { askedValues, changed } from "../result/asked";
import { capitalized } from "../shared/text";
import { Button } from "../ui/Button";
import { Card } from "../ui/Card";
import { hasRecipeAlone, reachWords } from "./suggestions";

interface WhatToTryProps {
  job: Job;
  suggestions: readonly Suggestion[];
  onTry: (values: Values) => void;
  isBusy: boolean;
}

/** What may be asked instead; a click asks it. */
export function WhatToTry({ job, suggestions, onTry, isBusy }: WhatToTryProps) {
  const { data: options = [] } = useOptions();
  const values = askedValues(job);
  if (suggestions.length === 0) return job.error_kind === "does_not_fit" ? <NothingHelps /> : null;
  if (!values) return null;
  const isChecked = suggestions.some((suggestion) => reachWords(suggestion) !== null);
  const canAdvise = isChecked && job.kind === "analysis" && hasRecipeAlone(suggestions, options);
  return (
    <Card
      title="What to try"
      note={`${isChecked ? "Each was checked by prediction. " : ""}Press one to ask the same question with this change.`}
      action={canAdvise && <AskAdvice job={job} label="See all ways to make it fit" />}
    >
      <ul className="divide-y divide-line">
        {suggestions.map((suggestion) => (
          <li
            key={suggestion.label}
            className="flex flex-wrap items-center justify-between gap-x-6 gap-y-2 py-3 first:pt-0 last:pb-0"
          >
            <span className="min-w-0">
              <span className="block font-medium">{capitalized(suggestion.label)}</span>
              <span className="block text-sm text-soft">{reachWords(suggestion)}</span>
            </span>
            <Button
              aria-label={`Analyze this: ${suggestion.label}`}
              onClick={() => onTry(changed(values, suggestion.change))}
              disabled={isBusy}
            >
              Analyze this
            </Button>
          </li>
        ))}
      </ul>
    </Card>
  );
}

function NothingHelps() {
  return (
    <Card title="What to try">
      <p className="text-sm text-soft">
        Nothing that was checked helps: no GPU in the catalog and no change to the recipe makes it fit.
      </p>
    </Card>
  );
}
