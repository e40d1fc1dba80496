import * as Tabs from "@radix-ui/react-tabs";
import { useState } from "react";
import { Card } from "../ui/Card";
import { CopyButton } from "../ui/CopyButton";
import type { Snippet } from "./code-snippets";

interface CodeCardProps {
  title: string;
  snippets: readonly Snippet[];
  batchSize: number;
  /** What else to consider. */
  hint?: string;
}

/** A batch, and how to train with it, as code to copy. */
export function CodeCard({ title, snippets: all, batchSize, hint }: CodeCardProps) {
  const [chosen, setChosen] = useState(all[0]!.name);
  const code = all.find((snippet) => snippet.name === chosen)?.code ?? "";
  return (
    <Card
      title={title}
      note="Your own: model, make_loader, dataset and LEARNING_RATE."
      action={<CopyButton text={code} label="Copy" />}
    >
      <Tabs.Root value={chosen} onValueChange={setChosen}>
        <Tabs.List aria-label="Framework" className="flex gap-1 border-b border-line">
          {all.map((snippet) => (
            <Tabs.Trigger
              key={snippet.name}
              value={snippet.name}
              className="min-h-10 border-b-2 border-transparent px-3 text-sm text-soft -outline-offset-2 hover:text-ink data-[state=active]:border-accent data-[state=active]:text-ink"
            >
              {snippet.name}
            </Tabs.Trigger>
          ))}
        </Tabs.List>
        {all.map((snippet) => (
          <Tabs.Content
            key={snippet.name}
            value={snippet.name}
            className="mt-3 h-[21.5rem] overflow-auto rounded-lg bg-black p-4 font-mono text-xs leading-6"
          >
            <pre>
              <Highlighted code={snippet.code} batchSize={batchSize} />
            </pre>
          </Tabs.Content>
        ))}
      </Tabs.Root>
      {hint && <p className="mt-3 text-sm text-soft">{hint}</p>}
    </Card>
  );
}

/** The one number that matters stands out. */
function Highlighted({ code, batchSize }: { code: string; batchSize: number }) {
  const [before, mark, after] = code.split(new RegExp(`(batch_size ?= ?${batchSize}\\b)`, "i"));
  if (!mark) return code;
  return (
    <>
      {before}
      <mark className="rounded bg-accent/20 text-accent">{mark}</mark>
      {after}
    </>
  );
}
