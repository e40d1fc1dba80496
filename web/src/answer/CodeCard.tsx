import * as Tabs from "@radix-ui/react-tabs";
import { useState } from "react";
import type { Analysis } from "../api/types";
import { snippets } from "../logic/code-snippets";
import { count } from "../logic/format";
import { Card } from "../ui/Card";
import { CopyButton } from "../ui/CopyButton";

/** The recommended batch as code to copy. */
export function CodeCard({ analysis }: { analysis: Analysis }) {
  const batchSize = analysis.recommended_batch_size ?? analysis.max_batch_size;
  const all = snippets(analysis.recipe, batchSize);
  const [chosen, setChosen] = useState(all[0]!.name);
  const code = all.find((snippet) => snippet.name === chosen)?.code ?? "";
  return (
    <Card
      title={`Use batch ${count(batchSize)}`}
      note="A much larger batch often wants a higher learning rate."
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
              <Highlighted code={snippet.code} mark={`batch_size=${batchSize}`} />
            </pre>
          </Tabs.Content>
        ))}
      </Tabs.Root>
    </Card>
  );
}

/** The one number that matters stands out. */
function Highlighted({ code, mark }: { code: string; mark: string }) {
  const at = code.indexOf(mark);
  if (at < 0) return code;
  return (
    <>
      {code.slice(0, at)}
      <mark className="rounded bg-accent/20 text-accent">{mark}</mark>
      {code.slice(at + mark.length)}
    </>
  );
}
