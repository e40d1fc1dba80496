import { isAdvice, isComparison, isSweep, type Job, type Result } from "../api/types";
import { gpusCsv, lengthsCsv, optionsCsv, trialsCsv } from "../logic/csv";
import { when } from "../logic/format";
import { Button } from "../ui/Button";
import { CopyButton } from "../ui/CopyButton";
import { DownloadIcon } from "../ui/icons";

interface ExportButtonsProps {
  job: Job;
  result: Result;
  model: string;
}

/** The result as files, and its link. */
export function ExportButtons({ job, result, model }: ExportButtonsProps) {
  const name = `memorymark-${job.model_name.replace(/[^\w.-]+/g, "-")}-${job.id}`;
  const saveReport = async () => {
    const report = await import("../logic/html-report");
    save(`${name}.html`, "text/html", report.reportOf(result, model, when(job.created_at)));
  };
  return (
    <div className="flex flex-wrap gap-2">
      <ExportButton
        label="JSON"
        onClick={() => save(`${name}.json`, "application/json", JSON.stringify(result, null, 2))}
      />
      <ExportButton label="CSV" onClick={() => save(`${name}.csv`, "text/csv", csvOf(result))} />
      <ExportButton label="HTML report" onClick={() => void saveReport()} />
      <CopyButton text={window.location.href} label="Copy link" />
    </div>
  );
}

function csvOf(result: Result): string {
  if (isAdvice(result)) return optionsCsv(result);
  if (isComparison(result)) return gpusCsv(result);
  return isSweep(result) ? lengthsCsv(result) : trialsCsv(result.trials);
}

function ExportButton({ label, onClick }: { label: string; onClick: () => void }) {
  return (
    <Button onClick={onClick}>
      <DownloadIcon className="size-4" />
      <span className="sr-only">Export as</span> {label}
    </Button>
  );
}

function save(name: string, type: string, text: string): void {
  const address = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const anchor = document.createElement("a");
  anchor.href = address;
  anchor.download = name;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
