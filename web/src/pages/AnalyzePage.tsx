import { QuestionForm } from "../form/QuestionForm";
import { useTitle } from "../hooks/use-title";
import { RecentResults } from "../layout/RecentResults";
import { WhatYouGet } from "../layout/WhatYouGet";

export function AnalyzePage() {
  useTitle("");
  return (
    <div className="grid grid-cols-1 gap-8 lg:grid-cols-[minmax(0,27rem)_minmax(0,1fr)] lg:gap-12">
      <div className="lg:order-last">
        <h1 className="max-w-2xl text-3xl leading-tight font-semibold tracking-tight text-balance sm:text-5xl">
          How much of your GPU does training waste?
        </h1>
        <p className="mt-4 max-w-xl text-soft">
          MemoryMark works through complete training steps and tells you the largest batch that fits, the batch worth
          using, how much faster it is and what that saves.
        </p>
        <div className="mt-8 hidden space-y-6 lg:block">
          <WhatYouGet />
          <RecentResults />
        </div>
      </div>
      <QuestionForm />
      <div className="space-y-6 lg:hidden">
        <WhatYouGet />
        <RecentResults />
      </div>
    </div>
  );
}
