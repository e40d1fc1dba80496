import type { Advice, AdviceOption } from "../api/types";
import { capitalized } from "../shared/text";
import { Card } from "../ui/Card";
import { batchNotes } from "./advice";

/** What each change of an option costs, and what its batch means for the learning rate. */
export function OptionCosts({ advice, option }: { advice: Advice; option: AdviceOption }) {
  return (
    <Card title="What it costs" note={capitalized(option.title)}>
      <dl className="divide-y divide-line text-sm">
        {option.costs.map(({ change, cost }) => (
          <div key={change} className="py-2.5 first:pt-0">
            <dt className="font-medium">{capitalized(change)}</dt>
            <dd className="mt-0.5 text-soft">{cost}</dd>
          </div>
        ))}
      </dl>
      <h3 className="mt-5 mb-2 text-sm font-semibold">Batch and learning rate</h3>
      <ul className="space-y-2 text-sm text-soft">
        {batchNotes(advice, option).map((note) => (
          <li key={note} className="border-l-2 border-edge pl-3">
            {note}
          </li>
        ))}
      </ul>
    </Card>
  );
}
