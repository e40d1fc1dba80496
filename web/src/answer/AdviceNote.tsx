import type { Advice, Job } from "../api/types";
import { sentence } from "../logic/problems";
import { AnalyzeAnother } from "../running/AnalyzeAnother";
import { HeadlineCard } from "../running/HeadlineCard";
import { JobTitle } from "../running/JobTitle";

interface AdviceNoteProps {
  job: Job;
  advice: Advice;
  model: string;
}

/** What to change, as far as this page shows it: the verdict, and where the rest can be read. */
export function AdviceNote({ job, advice, model }: AdviceNoteProps) {
  return (
    <div className="space-y-6">
      <JobTitle
        model={model}
        place={advice.gpu_name}
        recipe={advice.request.recipe}
        sample={advice.sample}
        source={advice.source}
        isSmall={advice.small}
      >
        <AnalyzeAnother />
      </JobTitle>
      <HeadlineCard
        headline={{ sentence: sentence(advice.verdict), tone: advice.worth_changing ? "good" : "neutral" }}
        detail={
          <>
            All options and their code: <code className="font-mono text-ink">memorymark history {job.id}</code>
          </>
        }
      />
    </div>
  );
}
