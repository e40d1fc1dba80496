import { useGpus } from "../api/queries";
import { QuestionForm } from "../form/QuestionForm";
import { bytes } from "../shared/format";
import { useTitle } from "../shared/use-title";
import { Badge } from "../ui/Badge";
import { Card } from "../ui/Card";
import { ScrollTable } from "../ui/ScrollTable";

/** The same training on every GPU: the question, and what is known of the GPUs. */
export function GpusPage() {
  useTitle("All GPUs");
  return (
    <div className="grid grid-cols-1 gap-8 lg:grid-cols-[minmax(0,27rem)_minmax(0,1fr)] lg:gap-12">
      <div className="lg:col-span-2">
        <h1 className="text-3xl font-semibold tracking-tight">Which GPU is fastest, which is cheapest?</h1>
        <p className="mt-2 max-w-2xl text-soft">
          Predicts the same training on every GPU in the catalog and ranks them by speed and by cost per million samples.
        </p>
      </div>
      <QuestionForm isForAllGpus />
      <Catalog />
    </div>
  );
}

function Catalog() {
  const { data: gpus, isPending } = useGpus();
  return (
    <Card
      title="The catalog"
      note="The price is the lowest among the providers' latest prices."
      className="self-start"
    >
      {isPending && <div className="skeleton h-[34rem]" />}
      {gpus && (
        <ScrollTable label="GPUs of the catalog">
          <table className="w-full text-sm">
            <caption className="sr-only">GPUs of the catalog</caption>
            <thead>
              <tr className="text-left text-xs text-soft [&>th]:px-2 [&>th]:pb-2 [&>th]:font-medium">
                <th scope="col">GPU</th>
                <th scope="col" className="text-right">
                  Memory
                </th>
                <th scope="col" className="text-right">
                  Price
                </th>
                <th scope="col" className="hidden sm:table-cell">
                  From
                </th>
              </tr>
            </thead>
            <tbody>
              {gpus.map((gpu) => (
                <tr key={gpu.id} className="border-t border-line [&>td]:px-2 [&>td]:py-2">
                  <td className="font-medium">
                    {gpu.name} {gpu.here && <Badge tone="good">here</Badge>}
                  </td>
                  <td className="text-right whitespace-nowrap">{bytes(gpu.memory_bytes, 1)}</td>
                  <td className="text-right whitespace-nowrap">
                    {gpu.price ? `$${gpu.price.usd_per_hour.toFixed(2)}/h` : "–"}
                  </td>
                  <td className="hidden text-soft sm:table-cell">
                    {gpu.price ? [gpu.price.provider, gpu.price.as_of].filter(Boolean).join(", ") : "no price known"}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </ScrollTable>
      )}
    </Card>
  );
}
