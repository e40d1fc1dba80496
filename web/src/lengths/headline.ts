import type { Sweep } from "../api/types";
import type { Headline } from "../result/headline";
import { count } from "../shared/format";

export function sweepHeadline(sweep: Sweep): Headline {
  return {
    lead: `Plan for ${count(sweep.plan_for)} tokens: batch ${count(sweep.planned_batch_size)} fits every shorter sample too`,
    tone: "good",
  };
}
