// How words look on the page.

/** Capitalizes a text that stands alone; a name such as bf16, torch.compile or timm:resnet18 stays as it is. */
export function capitalized(text: string): string {
  return text.replace(/^[a-z]+\b(?![.:]\w)/, (word) => word.charAt(0).toUpperCase() + word.slice(1));
}

/** `a`, `a or b`, `a, b or c`. */
export function either(names: readonly string[]): string {
  if (names.length < 2) return names[0] ?? "";
  return `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
}
