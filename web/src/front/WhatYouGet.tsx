/** What an answer looks like, before there is one. */
export function WhatYouGet() {
  return (
    <figure className="card p-5 sm:p-6">
      <figcaption className="mb-4 text-sm text-soft">
        Example: BERT base on an A10, predicted.
      </figcaption>
      <ExampleBar name="Today, batch 16" verdict="85 % wasted" share={15} isGood={false} />
      <ExampleBar name="Maximum, batch 268" verdict="100 % used" share={100} isGood />
      <p className="mt-5 text-lg font-medium">
        Batch 190 trains <span className="text-accent">1.30x faster</span> than today.
      </p>
    </figure>
  );
}

interface ExampleBarProps {
  name: string;
  verdict: string;
  share: number;
  isGood: boolean;
}

function ExampleBar({ name, verdict, share, isGood }: ExampleBarProps) {
  return (
    <div className="mt-3">
      <div className="mb-1 flex justify-between text-sm">
        <span>{name}</span>
        <span className={isGood ? "text-accent" : "text-bad-ink"}>{verdict}</span>
      </div>
      <div className="h-3 overflow-hidden rounded bg-raised">
        <div className={`h-full ${isGood ? "bg-accent" : "bg-bad"}`} style={{ width: `${share}%` }} />
      </div>
    </div>
  );
}
