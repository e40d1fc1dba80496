// Things to choose from, and which of them a typed text names.

export interface Option {
  value: string;
  label: string;
  /** Stands at the right. */
  detail?: string;
  /** Stands below the label. */
  note?: string;
  group: string;
  /** Other names for the same. */
  aliases?: readonly string[];
  /** Found by these too. */
  keywords?: string;
}

/** Less alike than this, and nobody would have meant it. */
const LIKENESS = 0.4;

/** The option that is called so: an id comes before a name, a name before an alias. */
export function exactly(options: readonly Option[], text: string): Option | undefined {
  const wanted = plain(text);
  if (wanted === "") return undefined;
  return (
    options.find((option) => plain(option.value) === wanted) ??
    options.find((option) => plain(option.label) === wanted) ??
    options.find((option) => option.aliases?.some((alias) => plain(alias) === wanted))
  );
}

/** Options that have all the words, the one that is called so first, then those whose name begins so. Groups stand together. */
export function matching(options: readonly Option[], text: string): Option[] {
  const wanted = plain(text);
  const words = wanted.split(" ").filter(Boolean);
  const exact = exactly(options, wanted);
  const rank = (option: Option) =>
    option === exact ? 0 : wanted !== "" && names(option).some((name) => name.startsWith(wanted)) ? 1 : 2;
  const found = options
    .filter((option) => {
      const all = [...names(option), option.note ?? "", option.keywords ?? ""].join(" ").toLowerCase();
      return words.every((word) => all.includes(word));
    })
    .sort((one, other) => rank(one) - rank(other));
  // The arrow keys must follow the order that is shown.
  return grouped(found).flatMap(([, members]) => members);
}

/** What may have been meant by a text that names nothing. */
export function nearest(options: readonly Option[], text: string, most = 3): Option[] {
  const found = matching(options, text);
  if (found.length > 0) return found.slice(0, most);
  const likeness = (option: Option) => Math.max(...names(option).map((name) => alike(name, plain(text))));
  return options
    .map((option) => ({ option, score: likeness(option) }))
    .filter(({ score }) => score >= LIKENESS)
    .sort((one, other) => other.score - one.score)
    .slice(0, most)
    .map(({ option }) => option);
}

export function grouped(options: readonly Option[]): [string, Option[]][] {
  const groups = new Map<string, Option[]>();
  for (const option of options) groups.set(option.group, [...(groups.get(option.group) ?? []), option]);
  return [...groups];
}

function names(option: Option): string[] {
  return [option.value, option.label, ...(option.aliases ?? [])].map(plain);
}

function plain(text: string): string {
  return text.trim().toLowerCase().replace(/\s+/g, " ");
}

/** From 0 to 1: how many pairs of neighbouring letters two words share. */
function alike(one: string, other: string): number {
  const [left, right] = [pairs(one), pairs(other)];
  if (left.length + right.length === 0) return 0;
  const rest = [...right];
  const shared = left.filter((pair) => {
    const at = rest.indexOf(pair);
    if (at >= 0) rest.splice(at, 1);
    return at >= 0;
  });
  return (2 * shared.length) / (left.length + right.length);
}

function pairs(text: string): string[] {
  const letters = text.replace(/[^a-z0-9]/g, "");
  return Array.from({ length: Math.max(letters.length - 1, 0) }, (_, at) => letters.slice(at, at + 2));
}
