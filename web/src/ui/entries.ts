// Things to choose from, and which of them a typed text names.

export interface Entry {
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

/** Names that are less alike than this are not suggested. */
const LIKENESS = 0.4;

/** The entry that is called this: an id comes before a name, a name before an alias. */
export function exactly(entries: readonly Entry[], text: string): Entry | undefined {
  const wanted = plain(text);
  if (wanted === "") return undefined;
  return (
    entries.find((entry) => plain(entry.value) === wanted) ??
    entries.find((entry) => plain(entry.label) === wanted) ??
    entries.find((entry) => entry.aliases?.some((alias) => plain(alias) === wanted))
  );
}

/** The value of the entry that is called this; an unknown name stays as it was typed. */
export function valueNamed(entries: readonly Entry[], text: string): string {
  return exactly(entries, text)?.value ?? text.trim();
}

/** Entries that have all the words: an exact name first, then names that begin with the text. Groups stay together. */
export function matching(entries: readonly Entry[], text: string): Entry[] {
  const wanted = plain(text);
  const words = wanted.split(" ").filter(Boolean);
  const exact = exactly(entries, wanted);
  const rank = (entry: Entry) =>
    entry === exact ? 0 : wanted !== "" && names(entry).some((name) => name.startsWith(wanted)) ? 1 : 2;
  const found = entries
    .filter((entry) => {
      const all = [...names(entry), entry.note ?? "", entry.keywords ?? ""].join(" ").toLowerCase();
      return words.every((word) => all.includes(word));
    })
    .sort((one, other) => rank(one) - rank(other));
  // The arrow keys must follow the order that is shown.
  return grouped(found).flatMap(([, members]) => members);
}

/** The entries that an unknown name may have meant. */
export function nearest(entries: readonly Entry[], text: string, most = 3): Entry[] {
  const found = matching(entries, text);
  if (found.length > 0) return found.slice(0, most);
  const likeness = (entry: Entry) => Math.max(...names(entry).map((name) => alike(name, plain(text))));
  return entries
    .map((entry) => ({ entry, score: likeness(entry) }))
    .filter(({ score }) => score >= LIKENESS)
    .sort((one, other) => other.score - one.score)
    .slice(0, most)
    .map(({ entry }) => entry);
}

export function grouped(entries: readonly Entry[]): [string, Entry[]][] {
  const groups = new Map<string, Entry[]>();
  for (const entry of entries) groups.set(entry.group, [...(groups.get(entry.group) ?? []), entry]);
  return [...groups];
}

function names(entry: Entry): string[] {
  return [entry.value, entry.label, ...(entry.aliases ?? [])].map(plain);
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
