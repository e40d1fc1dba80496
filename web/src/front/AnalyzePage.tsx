import { useTitle } from "../shared/use-title";
import { QuestionForm } from "../form/QuestionForm";
import { RecentResults } from "./RecentResults";
import { WhatYouGet } from "./WhatYouGet";

export function AnalyzePage() {
  useTitle("");
  return (
    // The heading stands at the right where there is room; links come after the form, for the eye and for the keyboard.
    <div className="grid grid-cols-1 gap-x-12 gap-y-6 lg:grid-cols-[minmax(0,27rem)_minmax(0,1fr)] lg:grid-rows-[auto_1fr] lg:gap-y-8">
      <div className="lg:col-start-2">
        <h1 className="max-w-2xl text-3xl leading-tight font-semibold tracking-tight text-balance sm:text-5xl">
          How much of your GPU does training waste?
        </h1>
        <p className="mt-4 hidden max-w-xl text-soft sm:block">
          MemoryMark runs or predicts complete training steps and tells you the largest batch that fits, the batch worth
          using, how much faster it trains and what that saves.
        </p>
      </div>
      <div className="lg:col-start-1 lg:row-span-2 lg:row-start-1">
        <QuestionForm />
      </div>
      <div className="space-y-6 lg:col-start-2">
        <WhatYouGet />
        <RecentResults />
      </div>
    </div>
  );
}
