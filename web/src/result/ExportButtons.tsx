import { useMutation } from "@tanstack/react-query";
import { api } from "../api/client";
import type { Answer, Job } from "../api/types";
import { callProblem } from "../shared/problems";
import { save } from "../shared/save";
import { Button } from "../ui/Button";
import { CopyButton } from "../ui/CopyButton";
import { ErrorBox } from "../ui/ErrorBox";
import { DownloadIcon } from "../ui/icons";

interface ExportButtonsProps {
  job: Job;
  result: Answer["result"];
  /** The result as a table for a spreadsheet. */
  csv: () => string;
  /** One GPU of a comparison, or one length of a sweep. */
  part?: string | null;
}

/** The result as files, and its link. */
export function ExportButtons({ job, result, csv, part = null }: ExportButtonsProps) {
  const name = `memorymark-${job.model_name.replace(/[^\w.-]+/g, "-")}-${job.id}`;
  const report = useMutation({
    mutationFn: () => api.report(job.id, part ?? undefined),
    onSuccess: (page) => save(`${name}.html`, "text/html", page),
  });
  return (
    <div className="flex flex-wrap gap-2">
      <ExportButton
        label="JSON"
        onClick={() => save(`${name}.json`, "application/json", JSON.stringify(result, null, 2))}
      />
      <ExportButton label="CSV" onClick={() => save(`${name}.csv`, "text/csv", csv())} />
      <ExportButton label="HTML report" onClick={() => report.mutate()} />
      {report.isError && <ErrorBox problem={callProblem(report.error)} onDismiss={report.reset} />}
      <CopyButton text={window.location.href} label="Copy link" />
    </div>
  );
}

export function ExportButton({ label, onClick }: { label: string; onClick: () => void }) {
  return (
    <Button onClick={onClick}>
      <DownloadIcon className="size-4" />
      <span className="sr-only">Export as</span> {label}
    </Button>
  );
}
