// The answer in one sentence.

export interface Headline {
  /** The beginning of the sentence; `strong` is the part that stands out. */
  lead: string;
  strong?: string;
  rest?: string;
  tone: "good" | "neutral" | "bad";
}

export function sentenceOf({ lead, strong = "", rest = "" }: Headline): string {
  return lead + strong + rest;
}
