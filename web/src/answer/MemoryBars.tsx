import type { Analysis, Trial } from "../api/types";
import { bytes, count, percent } from "../shared/format";
import { Card } from "../ui/Card";
import { currentTrial, maximumTrial, memoryUse, memoryWords, recommendedTrial } from "./analysis";

/** Red: what today's batch uses, and wastes. Green: the recommended batch, and the largest where that is another. */
export function MemoryBars({ analysis }: { analysis: Analysis }) {
  const now = currentTrial(analysis);
  const best = recommendedTrial(analysis);
  const most = maximumTrial(analysis);
  const isSame = analysis.recommended_batch_size === analysis.max_batch_size;
  return (
    <Card title="Memory" note={memoryWords(analysis)}>
      <div className="space-y-5">
        {now ? (
          <UseBar analysis={analysis} trial={now} name="Today" look="today" />
        ) : (
          <NoBar batch={analysis.current_batch_size} isTooLarge={analysis.current_batch_size > analysis.max_batch_size} />
        )}
        {best && !isSame && <UseBar analysis={analysis} trial={best} name="Recommended" look="recommended" />}
        {most && (
          <UseBar
            analysis={analysis}
            trial={most}
            name={isSame ? "Recommended, and the maximum" : "Maximum"}
            look={isSame ? "recommended" : "maximum"}
          />
        )}
      </div>
    </Card>
  );
}

type Look = "today" | "recommended" | "maximum";

const LOOKS: Record<Look, { track: string; fill: string; verdict: string }> = {
  today: {
    track: "h-8 bg-[repeating-linear-gradient(135deg,#3a1717_0_6px,#2a1414_6px_12px)]",
    fill: "bg-bad",
    verdict: "text-lg font-semibold text-bad-ink",
  },
  recommended: { track: "h-8 bg-raised", fill: "bg-accent", verdict: "text-lg font-semibold text-accent" },
  maximum: { track: "h-3 bg-raised", fill: "bg-accent/60", verdict: "text-soft" },
};

interface UseBarProps {
  analysis: Analysis;
  trial: Trial;
  name: string;
  look: Look;
}

function UseBar({ analysis, trial, name, look }: UseBarProps) {
  const use = memoryUse(analysis, trial);
  const words = {
    today: `${percent(use.leftPercent)} wasted`,
    recommended: `${percent(use.usedPercent)} used`,
    maximum: `${percent(use.usedPercent)} efficient`,
  };
  return (
    <div>
      <Title name={name} batch={trial.batch_size} verdict={words[look]} look={look} />
      <div aria-hidden="true" className={`overflow-hidden rounded-md ${LOOKS[look].track}`}>
        <div className={`arrives h-full rounded-md ${LOOKS[look].fill}`} style={{ width: `${use.usedPercent}%` }} />
      </div>
      <p className="mt-1.5 text-sm text-soft tabular-nums">
        {bytes(use.usedBytes)} used, {bytes(use.leftBytes)} {look === "today" ? "wasted" : "left"}
      </p>
    </div>
  );
}

/** Today's batch without a bar, because it does not fit or was not tried. */
function NoBar({ batch, isTooLarge }: { batch: number; isTooLarge: boolean }) {
  const why = isTooLarge ? "Does not fit" : "Not tried";
  return (
    <div>
      <Title name="Today" batch={batch} verdict={why} look="today" />
      <div aria-hidden="true" className={`overflow-hidden rounded-md ${LOOKS.today.track}`} />
    </div>
  );
}

function Title({ name, batch, verdict, look }: { name: string; batch: number; verdict: string; look: Look }) {
  return (
    <div className="mb-2 flex flex-wrap items-baseline justify-between gap-x-4">
      <p className="font-medium">
        {name} <span className="text-soft">batch {count(batch)}</span>
      </p>
      <p className={`tabular-nums ${LOOKS[look].verdict}`}>{verdict}</p>
    </div>
  );
}
