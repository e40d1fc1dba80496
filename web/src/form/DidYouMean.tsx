import type { MouseEvent } from "react";
import type { WrongName } from "../logic/asked-names";

interface DidYouMeanProps {
  wrong: WrongName;
  onChoose: (value: string) => void;
}

/** A name that nothing has, and those that may have been meant, to choose from. */
export function DidYouMean({ wrong, onChoose }: DidYouMeanProps) {
  const choose = (event: MouseEvent, value: string) => {
    // The button goes with the mistake; the focus must not.
    event.currentTarget.closest(".relative")?.querySelector("input")?.focus();
    onChoose(value);
  };
  return (
    <>
      {wrong.text}
      {wrong.near.length > 0 && " Did you mean "}
      {wrong.near.map((option, index) => (
        <span key={option.value}>
          {index > 0 && (index === wrong.near.length - 1 ? " or " : ", ")}
          <button
            type="button"
            onClick={(event) => choose(event, option.value)}
            className="min-h-6 rounded text-ink underline"
          >
            {option.label}
          </button>
        </span>
      ))}
      {wrong.near.length > 0 && "?"}
    </>
  );
}
