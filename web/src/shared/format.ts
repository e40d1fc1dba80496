// Numbers as people read them. GiB means 2^30 bytes.

const KIB = 2 ** 10;
const MIB = 2 ** 20;
export const GIB = 2 ** 30;

const fixed = (value: number, digits: number) =>
  value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits });

/** `21.70 GiB`, or MiB and KiB for what would read as 0.00 GiB. */
export function bytes(size: number, digits = 2): string {
  if (Math.abs(size) >= 0.1 * GIB) return `${fixed(size / GIB, digits)} GiB`;
  if (Math.abs(size) >= 0.1 * MIB) return `${fixed(size / MIB, 1)} MiB`;
  return `${fixed(size / KIB, 1)} KiB`;
}

export function count(value: number): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

export function peopleWords(people: number): string {
  return people === 1 ? "1 person" : `${count(people)} people`;
}

/** At most so many digits after the point, and no zeros at the end. */
export function short(value: number, digits = 2): string {
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

/** The number at a tick: of millions only their count, as there is little room. */
export function tick(value: number): string {
  return value >= 1e6 ? `${short(value / 1e6)}M` : short(value);
}

export function percent(value: number, digits = 1): string {
  return `${fixed(value, digits)} %`;
}

/** Cents only where they matter, and three digits of less than a dollar. */
export function dollars(value: number): string {
  const size = Math.abs(value);
  const text = size !== 0 && size < 0.995 ? perSecond(size) : fixed(size, size < 100 ? 2 : 0);
  return value < 0 && Number(text) !== 0 ? `-$${text}` : `$${text}`;
}

export function speedup(value: number): string {
  return `${fixed(value, 2)}x`;
}

/** `0.970x`, `3.02x`, `23.1x`. */
export function gain(value: number): string {
  return `${perSecond(value)}x`;
}

/** A rate in three digits or more: `0.0412`, `8.30`, `85.3`, `12,345`. */
export function perSecond(value: number): string {
  const rounded = Number(value.toPrecision(3));
  const digits = rounded === 0 ? 0 : Math.max(2 - Math.floor(Math.log10(Math.abs(rounded))), 0);
  return fixed(value, Math.min(digits, 20));
}

/** `124M`, `25.6M`, `7.24B`. */
export function parameters(value: number): string {
  const [unit, size] = value >= 1e9 ? (["B", 1e9] as const) : (["M", 1e6] as const);
  const amount = value / size;
  return `${perSecond(amount)}${unit}`;
}

export function seconds(value: number): string {
  if (value < 60) return `${perSecond(value)} s`;
  const whole = Math.round(value);
  return `${Math.floor(whole / 60)} min ${whole % 60} s`;
}

/** `12.3 min`, `5.20 h`, `3.41 days`. */
export function hours(value: number): string {
  if (value < 1) return `${perSecond(60 * value)} min`;
  return value < 48 ? `${perSecond(value)} h` : `${perSecond(value / 24)} days`;
}

export function when(iso: string): string {
  return new Date(iso).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
}

/** `15 Nov 2026`. */
export function day(iso: string): string {
  return new Date(iso).toLocaleDateString("en-GB", { dateStyle: "medium" });
}

/** `just now`, `5 min ago`, `3 h ago`, then the date. */
export function ago(iso: string, now: number = Date.now()): string {
  const minutes = Math.floor((now - Date.parse(iso)) / 60_000);
  if (minutes < 1) return "just now";
  if (minutes < 60) return `${minutes} min ago`;
  if (minutes < 24 * 60) return `${Math.floor(minutes / 60)} h ago`;
  return day(iso);
}

/** `NVIDIA A10` is `A10` where there is little room. */
export function shortGpuName(name: string): string {
  return name.replace(/^NVIDIA (GeForce )?/, "");
}
