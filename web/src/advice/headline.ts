// An advice in one sentence, and what stands below it.
import type { Advice } from "../api/types";
import type { Headline } from "../result/headline";
import { sourceWords } from "../result/source";
import { dollars, gain, percent } from "../shared/format";
import { capitalized } from "../shared/text";

export function adviceHeadline(advice: Advice): Headline {
  const best = advice.worth_changing ? advice.options[0] : undefined;
  if (!best) {
    const nothing = advice.incomplete ? "Nothing that could be checked is worth changing" : "Nothing is worth changing";
    return { lead: nothing, tone: "neutral" };
  }
  if (!advice.fits_today) return { lead: `The least change that makes it fit: ${best.title}`, tone: "good" };
  const saved = best.cost_savings_annual === null ? "" : ` and saves ${dollars(best.cost_savings_annual)} a year`;
  return {
    lead: `${capitalized(best.title)}: trains `,
    strong: `${gain(best.gain ?? 1)} faster`,
    rest: ` than today${saved}, ${best.source}`,
    tone: "good",
  };
}

/** What stands below the headline. */
export function adviceDetail(advice: Advice): string {
  const how = howAdvised(advice);
  if (!advice.fits_today) return `Today's training does not fit. ${how}`;
  return advice.worth_changing ? how : `${whyNothing(advice.options.map((option) => option.gain ?? 0))} ${how}`;
}

/** Which of the ways ran. */
export function howAdvised(advice: Advice): string {
  const { options } = advice;
  const ran = options.filter((option) => option.source === "measured").length;
  if (ran === 0 || ran === options.length) return sourceWords(advice);
  return `${ran} of ${options.length} ways ran on the ${advice.gpu_name}; the others are predicted.`;
}

function whyNothing(gains: readonly number[]): string {
  const best = Math.max(...gains);
  if (gains.length === 0 || best < 1.005) return "No other way to train is faster than today's.";
  const ways = gains.length === 1 ? "The only other way to train" : `The best of ${gains.length} other ways to train`;
  return `${ways} gains ${percent(100 * (best - 1), 0)}, no more than two measurements differ by.`;
}
