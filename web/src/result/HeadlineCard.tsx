import type { ReactNode } from "react";
import type { Headline } from "./headline";

interface HeadlineCardProps {
  headline: Headline;
  detail: ReactNode;
}

const TONES = { good: "border-l-accent", neutral: "border-l-sky", bad: "border-l-bad" };

/** The answer in one sentence. */
export function HeadlineCard({ headline: { lead, strong, rest, tone }, detail }: HeadlineCardProps) {
  return (
    <div className={`card min-h-44 border-l-4 p-5 sm:p-8 ${TONES[tone]}`}>
      <h1 className="text-2xl leading-tight font-semibold tracking-tight text-pretty sm:text-4xl">
        {lead}
        {strong && <span className="text-accent">{strong}</span>}
        {rest}
      </h1>
      <p className="mt-3 max-w-4xl text-soft sm:text-lg">{detail}</p>
    </div>
  );
}
