// The code to copy that comes with a result, by library.
import type { Code } from "../api/types";

export interface Snippet {
  name: string;
  code: string;
}

export function snippets(code: Code): Snippet[] {
  return [
    { name: "PyTorch", code: code.pytorch },
    { name: "Transformers", code: code.transformers },
    { name: "Lightning", code: code.lightning },
  ];
}
