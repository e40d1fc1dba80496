import { useMutation } from "@tanstack/react-query";
import { api } from "../api/client";
import type { GridSweep } from "../api/types";
import { ExportButton } from "../result/ExportButtons";
import { callProblem } from "../shared/problems";
import { save } from "../shared/save";
import { CopyButton } from "../ui/CopyButton";
import { ErrorBox } from "../ui/ErrorBox";

const TYPES = { html: "text/html", csv: "text/csv", json: "application/json" };
type Form = keyof typeof TYPES;

/** The sweep as files, and its link: `address` is that of the cases shown. */
export function SweepExports({ sweep, address }: { sweep: GridSweep; address: string }) {
  const name = `memorymark-sweep-${sweep.id}`;
  const report = useMutation({
    mutationFn: (form: Form) => api.sweepReport(sweep.id, form),
    onSuccess: (text, form) => save(`${name}.${form}`, TYPES[form], text),
  });
  return (
    <div className="flex flex-wrap gap-2">
      <ExportButton label="JSON" onClick={() => report.mutate("json")} />
      <ExportButton label="CSV" onClick={() => report.mutate("csv")} />
      <ExportButton label="HTML report" onClick={() => report.mutate("html")} />
      {report.isError && <ErrorBox problem={callProblem(report.error)} onDismiss={report.reset} />}
      <CopyButton text={address} label="Copy link" />
    </div>
  );
}
