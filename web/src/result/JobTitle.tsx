import type { ReactNode } from "react";
import type { Job, Source } from "../api/types";
import { Badge, SourceBadge } from "../ui/Badge";
import { isRecorded } from "./recorded";

interface JobTitleProps {
  job: Job;
  model: string;
  place: string;
  sample?: string | null;
  source: Source;
  isSmall?: boolean;
  children?: ReactNode;
}

/** What a job is about: the model, where and how it trains; at the right, what can be done with it. */
export function JobTitle({ job, model, place, sample = job.sample_words, source, isSmall, children }: JobTitleProps) {
  return (
    <div className="flex flex-wrap items-center justify-between gap-x-6 gap-y-3">
      <div className="min-w-0">
        <p className="flex flex-wrap items-center gap-x-2 gap-y-1 text-lg font-semibold">
          {model} <span className="font-normal text-soft">on</span> {place} <SourceBadge source={source} />
          {isRecorded(job) && <Badge tone="warn">recorded</Badge>}
          {isSmall && <Badge tone="warn">small stand-in</Badge>}
        </p>
        <p className="mt-0.5 text-sm text-soft">{[sample, job.recipe_words].filter(Boolean).join(" · ")}</p>
      </div>
      <div className="flex min-h-10 flex-wrap gap-2">{children}</div>
    </div>
  );
}
