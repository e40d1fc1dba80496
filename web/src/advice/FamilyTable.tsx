import type { ReactNode } from "react";
import type { Advice } from "../api/types";
import { heldBytes } from "../result/memory";
import { bytes, count, perSecond } from "../shared/format";
import { rateOf, rateUnit } from "../shared/rate";
import { capitalized } from "../shared/text";
import { Card } from "../ui/Card";
import { ScrollTable } from "../ui/ScrollTable";
import { batchWords, changeWords } from "./advice";

type Family = Advice["families"][number];

/** The ways to fine-tune a language model on this GPU, each with its least change; nothing for other models. */
export function FamilyTable({ advice }: { advice: Advice }) {
  const families = advice.families ?? [];
  if (families.length === 0) return null;
  const unit = rateUnit(families.map(({ option }) => option));
  return (
    <Card
      title="Ways to fine-tune it on this GPU"
      note="The least change of today's recipe for each. Longest is the longest sequence at batch 1."
    >
      <ScrollTable label="Ways to fine-tune">
        <table className="w-full text-right text-sm">
          <caption className="sr-only">The least change of each way to fine-tune, and how far it goes</caption>
          <thead>
            <tr className="text-xs text-soft [&>th]:px-2 [&>th]:pb-2 [&>th]:font-medium">
              <th scope="col" className="text-left">
                Way
              </th>
              <th scope="col" className="text-left">
                Least change
              </th>
              {["Batch", "Largest batch", "Longest", `${capitalized(unit)}/s`, "GPU memory"].map((name) => (
                <th key={name} scope="col">
                  {name}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {families.map((family) => (
              <FamilyRow key={family.id} advice={advice} family={family} />
            ))}
          </tbody>
        </table>
      </ScrollTable>
    </Card>
  );
}

function FamilyRow({ advice, family }: { advice: Advice; family: Family }) {
  const { option, longest_seq_len: longest } = family;
  if (!option)
    return (
      <Row title={family.title}>
        <td colSpan={6} className="text-left text-soft">
          {capitalized(family.why_not)}
        </td>
      </Row>
    );
  return (
    <Row title={family.title}>
      <td className="text-left">{option.changes.join() === "batch" ? "None" : capitalized(changeWords(option))}</td>
      <td>{batchWords(option.batch_size, option)}</td>
      <td>{option.max_batch_size === null ? "–" : count(option.max_batch_size)}</td>
      <td>{longest === null ? "–" : count(longest)}</td>
      <td>{perSecond(rateOf(option) ?? 0)}</td>
      <td className="whitespace-nowrap">{bytes(heldBytes(advice.info, option.measured ?? option.predicted!))}</td>
    </Row>
  );
}

function Row({ title, children }: { title: string; children: ReactNode }) {
  return (
    <tr className="border-t border-line tabular-nums [&>td]:px-2 [&>td]:py-2">
      <th scope="row" className="px-2 text-left font-medium">
        {title}
      </th>
      {children}
    </tr>
  );
}
