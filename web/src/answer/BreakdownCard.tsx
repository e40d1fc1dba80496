import type { Analysis } from "../api/types";
import { PARTS } from "../charts/chart-data";
import { bytes, count, percent } from "../shared/format";
import { Card } from "../ui/Card";

/** Where the memory goes at the maximum. */
export function BreakdownCard({ analysis }: { analysis: Analysis }) {
  const { breakdown } = analysis;
  const title = `Where the memory goes at batch ${count(analysis.max_batch_size)}`;
  if (!breakdown) {
    return (
      <Card title={title}>
        <p className="text-sm text-soft">No breakdown is available for this device.</p>
      </Card>
    );
  }
  const total = PARTS.reduce((sum, part) => sum + breakdown[part.name], 0);
  const parts = PARTS.map((part) => ({
    ...part,
    size: breakdown[part.name],
    share: breakdown[part.name] / total,
  })).filter((part) => part.size > 0);
  return (
    <Card title={title} note="The parts add up to all memory in use on the device.">
      <div aria-hidden="true" className="mb-4 flex h-6 gap-px overflow-hidden rounded-md">
        {parts.map((part) => (
          <div key={part.name} style={{ flexGrow: part.share, background: part.color }} />
        ))}
      </div>
      <table className="w-full text-sm">
        <caption className="sr-only">{title}</caption>
        <tbody>
          {parts.map((part) => (
            <tr key={part.name} className="border-b border-line">
              <th scope="row" className="py-1.5 text-left font-normal">
                <span
                  aria-hidden="true"
                  className="mr-2 inline-block size-2.5 rounded-[2px]"
                  style={{ background: part.color }}
                />
                {part.label}
              </th>
              <td className="py-1.5 text-right">{bytes(part.size)}</td>
              <td className="w-20 py-1.5 text-right text-soft">{percent(100 * part.share)}</td>
            </tr>
          ))}
          <tr className="font-semibold">
            <th scope="row" className="pt-2 text-left">
              Total
            </th>
            <td className="pt-2 text-right">{bytes(total)}</td>
            <td />
          </tr>
        </tbody>
      </table>
    </Card>
  );
}
