import type { ReactNode } from "react";
import type { Headline } from "../logic/headline";

interface HeadlineCardProps {
  headline: Headline;
  detail: ReactNode;
  children?: ReactNode;
}

const TONES = { good: "border-l-accent", neutral: "border-l-sky", bad: "border-l-bad" };

/** The answer in one sentence. */
export function HeadlineCard({ headline, detail, children }: HeadlineCardProps) {
  return (
    <div className={`card min-h-44 border-l-4 p-5 sm:p-8 ${TONES[headline.tone]}`}>
      <h1 className="text-2xl leading-tight font-semibold tracking-tight text-pretty sm:text-4xl">
        <Emphasized text={headline.sentence} />
      </h1>
      <p className="mt-3 max-w-4xl text-soft sm:text-lg">{detail}</p>
      {children}
    </div>
  );
}

/** The speedup stands out. */
function Emphasized({ text }: { text: string }) {
  const [before, speed, after] = text.split(/(\d[\d.,]*x faster)/);
  if (!speed) return text;
  return (
    <>
      {before}
      <span className="text-accent">{speed}</span>
      {after}
    </>
  );
}
