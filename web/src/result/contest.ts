// Which GPU is the fastest, and which the cheapest.
import { either } from "../shared/text";

interface Contest {
  fastest: string | null;
  cheapest: string | null;
  fastest_candidates?: string[] | null;
  cheapest_candidates?: string[] | null;
}

/** Which GPUs are the fastest and the cheapest, as far as the uncertainty allows; `null` if there are none. */
export function contestWords(contest: Contest, named: (id: string) => string): string | null {
  const fastest = oneOf(contest.fastest, contest.fastest_candidates ?? [], named);
  const cheapest = oneOf(contest.cheapest, contest.cheapest_candidates ?? [], named);
  if (fastest && cheapest) return `Fastest on the ${fastest}, cheapest on the ${cheapest}`;
  return fastest ? `Fastest on the ${fastest}` : null;
}

function oneOf(sure: string | null, candidates: readonly string[], named: (id: string) => string): string | null {
  if (sure) return named(sure);
  const names = candidates.map(named);
  if (names.length > 3) return `${names.slice(0, 2).join(", ")} or one of ${names.length - 2} others`;
  return either(names) || null;
}
