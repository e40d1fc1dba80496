import type { MouseEvent } from "react";
import type { Suggestion } from "../api/types";
import { withValues } from "./draft";
import type { FieldFault } from "./faults";
import { useDraft } from "./use-draft";

/** What is wrong with a field. Each suggestion is a button that changes the form. */
export function FaultText({ fault }: { fault: FieldFault }) {
  const { update } = useDraft();
  const { text, suggestions, isGuess } = fault;
  const apply = (event: MouseEvent, { change }: Suggestion) => {
    // The button disappears with the fault; the focus must not get lost with it.
    event.currentTarget.closest("[data-field]")?.querySelector<HTMLElement>("input, textarea, [role]")?.focus();
    update((before) => withValues(before, change));
  };
  return (
    <>
      {text}
      {suggestions.length > 0 && (isGuess ? " Did you mean " : " Try: ")}
      {suggestions.map((suggestion, index) => (
        <span key={suggestion.label}>
          {index > 0 && (index === suggestions.length - 1 ? " or " : ", ")}
          <button
            type="button"
            onClick={(event) => apply(event, suggestion)}
            className="min-h-6 rounded text-ink underline"
          >
            {suggestion.label}
          </button>
        </span>
      ))}
      {suggestions.length > 0 && (isGuess ? "?" : ".")}
    </>
  );
}
