// The answer in one sentence.

export interface Headline {
  /** The sentence; what stands out in it is apart. */
  lead: string;
  strong?: string;
  rest?: string;
  tone: "good" | "neutral" | "bad";
}

export function sentenceOf({ lead, strong = "", rest = "" }: Headline): string {
  return lead + strong + rest;
}
