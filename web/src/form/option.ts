// One option as the service declares it: how it is shown, what a text in its field stands for, and what is wrong with it.
import type { Option } from "../api/types";
import { short } from "../shared/format";
import { capitalized } from "../shared/text";
import type { Choice } from "../ui/fields";

/** Up to so many choices are all in sight. */
const FEW = 4;
/** A choice must have a value: this one leaves an option open. */
export const OPEN = "default";

export type Control = "segments" | "select" | "switch" | "percent" | "number" | "list" | "text";

export function controlOf(option: Option): Control {
  switch (option.type) {
    case "flag":
      return option.is_optional ? "select" : "switch";
    case "choice":
      return option.rare || choicesOf(option).length > FEW ? "select" : "segments";
    case "count":
      return "number";
    case "number":
      return option.unit === "fraction" ? "percent" : "number";
    case "counts":
      return "list";
    case "text":
    case "names":
    case "prices":
    case "document":
      return "text";
  }
}

/** Several lengths of a sample, and one. */
export const LENGTHS = "seq_lens";
export const LENGTH = "seq_len";

/** Whether it sets the size of a sample. */
export function isSampleSize(option: Option): boolean {
  return option.group === "sample" && option.type === "count";
}

/** Whether its control takes a row of its own. */
export function isWide(option: Option): boolean {
  return ["segments", "switch"].includes(controlOf(option));
}

/** What can be chosen; the name in code stands beside a label that people read. */
export function choicesOf(option: Option): Choice<string>[] {
  const values = option.type === "flag" ? ["true", "false"] : (option.choices ?? []);
  const open = option.is_optional ? [{ value: OPEN, label: "Default" }] : [];
  return [...open, ...values.map((value) => ({ value, label: labelOf(option, value), hint: hintOf(option, value) }))];
}

export function labelOf(option: Option, value: string): string {
  const usual = option.type === "flag" ? { true: "Yes", false: "No" }[value] : value;
  return capitalized(option.labels[value] ?? usual ?? value);
}

function hintOf(option: Option, value: string): string | undefined {
  return option.type === "choice" && value in option.labels ? value : undefined;
}

/** A value as it stands in a field; empty where it is left open. */
export function textOf(value: unknown): string {
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.join(", ");
  if (isPrices(value)) return Object.entries(value).map(([name, price]) => `${name} ${price}`).join(", ");
  return typeof value === "object" ? JSON.stringify(value, null, 2) : String(value);
}

/** The value that a text stands for; undefined if it is not valid. */
export function valueOf(option: Option, text: string): unknown {
  const typed = text.trim();
  if (typed === "") return textOf(option.default) === "" ? option.default : option.is_optional ? null : undefined;
  switch (option.type) {
    case "flag":
      return { true: true, false: false }[typed];
    case "choice":
      return option.choices?.includes(typed) ? typed : undefined;
    case "count":
      return /^-?\d{1,15}$/.test(typed) ? Number(typed) : undefined;
    case "number":
      return Number.isFinite(Number(typed)) ? Number(typed) : undefined;
    case "counts":
      return readCounts(typed) ?? undefined;
    case "text":
      return typed;
    case "names":
      return [...new Set(typed.split(/[,;]+/).map((name) => name.trim()).filter(Boolean))];
    case "prices":
      return readPrices(typed);
    case "document":
      return readDocument(typed);
  }
}

/** The numbers in `128, 512 2048`, each once; null if something else is there. */
export function readCounts(text: string): number[] | null {
  const parts = text.split(/[\s,;]+/).filter(Boolean);
  if (!parts.every((part) => /^0*[1-9]\d{0,8}$/.test(part))) return null;
  return [...new Set(parts.map(Number))];
}

/** The prices in `l4 0.49, a10 1.29`, by name; undefined if something else is there. */
function readPrices(text: string): Record<string, number> | undefined {
  const parts = text.split(/[,;\n]+/).map((part) => /^\s*(.*\S)[\s:=]+\$?(\d+(?:\.\d+)?)\s*$/.exec(part));
  if (!parts.every((part) => part !== null)) return undefined;
  return Object.fromEntries(parts.map((part) => [part[1]!.replace(/[\s:=]+$/, ""), Number(part[2])]));
}

/** Whether it is an object of numbers only, as prices are. */
function isPrices(value: unknown): value is Record<string, number> {
  const values = typeof value === "object" && value !== null ? Object.values(value) : [];
  return values.length > 0 && values.every((one) => typeof one === "number");
}

function readDocument(text: string): unknown {
  try {
    const content: unknown = JSON.parse(text);
    return typeof content === "object" && content !== null && !Array.isArray(content) ? content : undefined;
  } catch {
    return undefined;
  }
}

const SHAPES: Record<Option["type"], string> = {
  flag: "Choose one",
  choice: "Choose one",
  count: "Enter a whole number",
  number: "Enter a number",
  counts: "Enter whole numbers, as in 128, 512",
  text: "Enter a text",
  names: "Enter names, as in l4, a10",
  prices: "Enter names and prices, as in l4 0.49, a10 1.29",
  document: "Enter a JSON object, from { to }",
};

/** What is wrong with a text in the option's field, judged by its bounds; null if nothing is. */
export function textError(option: Option, text: string): string | null {
  const value = valueOf(option, text);
  const numbers = [value].flat().filter((one) => typeof one === "number");
  if (value !== undefined && numbers.every((one) => isWithin(option, one))) return null;
  return `${SHAPES[option.type]}${boundWords(option, numbers)}${valueOf(option, "") === undefined ? "" : ", or leave it empty"}.`;
}

function isWithin({ minimum, above, maximum, below }: Option, value: number): boolean {
  return (
    (minimum === null || value >= minimum) &&
    (above === null || value > above) &&
    (maximum === null || value <= maximum) &&
    (below === null || value < below)
  );
}

/** The upper bound, only if people come near it or have exceeded it. */
function boundWords(option: Option, values: readonly number[]): string {
  const { minimum, above, maximum, below } = option;
  const shown = (bound: number) => short(controlOf(option) === "percent" ? 100 * bound : bound);
  const low = above !== null ? ` above ${shown(above)}` : minimum !== null ? `, ${shown(minimum)} or more` : "";
  const isBeyond = maximum !== null && values.some((value) => value > maximum);
  const high = below !== null ? `below ${shown(below)}` : isBeyond ? `${shown(maximum)} or less` : "";
  return low + (high && `${low ? " and" : ","} ${high}`);
}
