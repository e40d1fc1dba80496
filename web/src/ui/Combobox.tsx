import { useEffect, useId, useRef, useState, type KeyboardEvent, type ReactNode } from "react";
import { afterPress } from "./after-press";
import { exactly, grouped, matching, type Entry } from "./entries";
import { CheckIcon, ChevronIcon } from "./icons";

interface ComboboxProps {
  label: string;
  entries: readonly Entry[];
  value: string;
  onChange: (value: string) => void;
  placeholder?: string;
  hint?: ReactNode;
  /** What is wrong with the value; replaces the hint. */
  error?: ReactNode;
  /** Makes an entry of the typed text, if it may be one. */
  custom?: (typed: string) => Entry | null;
  /** Whether typed text becomes the value when the field is left, even if it is not from the list. */
  keepsText?: boolean;
  /** What to say when nothing matches what was typed. */
  nothing?: (typed: string) => string;
}

/** One of many, found by typing. */
export function Combobox({
  label,
  entries,
  value,
  onChange,
  placeholder,
  hint,
  error,
  custom,
  keepsText = false,
  nothing,
}: ComboboxProps) {
  const id = useId();
  const [isOpen, setOpen] = useState(false);
  const [typed, setTyped] = useState<string | null>(null);
  const [active, setActive] = useState(0);
  const root = useRef<HTMLDivElement>(null);
  const input = useRef<HTMLInputElement>(null);
  const list = useRef<HTMLDivElement>(null);
  const chosen = exactly(entries, value) ?? custom?.(value) ?? undefined;
  const shown = withCustom(matching(entries, typed ?? ""), custom?.((typed ?? "").trim()) ?? null);

  useEffect(() => {
    if (isOpen) list.current?.querySelector("[data-active=true]")?.scrollIntoView({ block: "nearest" });
  }, [isOpen, active]);

  const open = () => {
    if (isOpen) return;
    setOpen(true);
    setActive(Math.max(chosen ? shown.indexOf(chosen) : 0, 0));
    // The next letter replaces the text that is there.
    input.current?.select();
  };
  const close = () => {
    setOpen(false);
    setTyped(null);
  };
  const choose = (entry: Entry | undefined) => {
    if (entry) onChange(entry.value);
    close();
  };
  /** The field was left: its text is the value. */
  const leave = () => {
    setOpen(false);
    if (typed === null) return;
    afterPress(() => {
      const meant = exactly(entries, typed)?.value ?? typed.trim();
      if (keepsText && meant !== value) onChange(meant);
      setTyped(null);
    });
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const moves: Record<string, number> = { ArrowDown: 1, ArrowUp: -1 };
    const move = moves[event.key];
    if (move) {
      event.preventDefault();
      if (isOpen) setActive((now) => Math.min(Math.max(now + move, 0), shown.length - 1));
      else open();
    } else if (event.key === "Enter" && isOpen) {
      event.preventDefault();
      if (shown.length > 0) choose(shown[active]);
      else leave();
    } else if (event.key === "Escape" && isOpen) {
      event.preventDefault();
      close();
    }
  };

  return (
    <div
      ref={root}
      className="relative"
      onBlur={(event) => {
        if (!root.current?.contains(event.relatedTarget)) leave();
      }}
    >
      <label htmlFor={id} className="mb-1.5 block text-sm font-medium">
        {label}
      </label>
      <div className="relative">
        <input
          ref={input}
          id={id}
          role="combobox"
          aria-expanded={isOpen}
          aria-controls={isOpen ? `${id}-list` : undefined}
          aria-autocomplete="list"
          aria-activedescendant={isOpen && shown[active] ? `${id}-${shown[active].value}` : undefined}
          aria-invalid={error ? true : undefined}
          aria-describedby={error || hint ? `${id}-hint` : undefined}
          autoComplete="off"
          spellCheck={false}
          placeholder={placeholder}
          value={typed ?? chosen?.label ?? value}
          onClick={open}
          onKeyDown={onKeyDown}
          onChange={(event) => {
            setTyped(event.target.value);
            setActive(0);
            setOpen(true);
          }}
          className={`field truncate pr-10 placeholder:text-faint ${error ? "border-bad" : ""}`}
        />
        <ChevronIcon className="pointer-events-none absolute top-1/2 right-3 size-4 -translate-y-1/2 text-faint" />
      </div>
      {(error || hint) && (
        <div id={`${id}-hint`} className={`mt-1 text-xs ${error ? "text-bad-ink" : "text-faint"}`}>
          {error ?? hint}
        </div>
      )}
      {isOpen && (
        <div className="absolute top-[calc(1.75rem+2.75rem+0.375rem)] left-0 z-40 w-full overflow-hidden rounded-lg border border-edge bg-card shadow-2xl shadow-black">
          {shown.length === 0 ? (
            <p role="status" className="p-3 text-sm text-soft">
              {nothing?.(typed ?? "") ?? "Nothing matches."}
            </p>
          ) : (
            <div
              ref={list}
              id={`${id}-list`}
              role="listbox"
              aria-label={label}
              className="max-h-80 overflow-y-auto p-1"
            >
              {grouped(shown).map(([group, members]) => (
                <div key={group} role="group" aria-label={group}>
                  <div aria-hidden="true" className="px-3 pt-2 pb-1 text-xs font-medium text-faint">
                    {group}
                  </div>
                  {members.map((entry) => (
                    <ComboboxEntry
                      key={entry.value}
                      id={`${id}-${entry.value}`}
                      entry={entry}
                      isActive={entry === shown[active]}
                      isChosen={entry === chosen}
                      onChoose={() => choose(entry)}
                      onHover={() => setActive(shown.indexOf(entry))}
                    />
                  ))}
                </div>
              ))}
            </div>
          )}
        </div>
      )}
    </div>
  );
}

interface ComboboxEntryProps {
  id: string;
  entry: Entry;
  isActive: boolean;
  isChosen: boolean;
  onChoose: () => void;
  onHover: () => void;
}

function ComboboxEntry({ id, entry, isActive, isChosen, onChoose, onHover }: ComboboxEntryProps) {
  return (
    <div
      id={id}
      role="option"
      tabIndex={-1}
      aria-selected={isChosen}
      data-active={isActive}
      onPointerDown={(event) => event.preventDefault()}
      onClick={onChoose}
      onKeyDown={() => undefined}
      onPointerMove={onHover}
      className="flex min-h-10 cursor-pointer items-center gap-3 rounded-md px-3 py-1.5 text-sm data-[active=true]:bg-raised"
    >
      <span className="min-w-0 grow">
        <span className={isChosen ? "text-accent" : ""}>{entry.label}</span>
        {entry.note && <span className="block truncate text-xs text-faint">{entry.note}</span>}
      </span>
      {entry.detail && <span className="shrink-0 text-xs text-soft tabular-nums">{entry.detail}</span>}
      <CheckIcon className={`size-4 shrink-0 text-accent ${isChosen ? "" : "invisible"}`} />
    </div>
  );
}

/** The typed one comes last, unless it is there already. */
function withCustom(entries: Entry[], typed: Entry | null): Entry[] {
  const isKnown = entries.some((entry) => entry.value === typed?.value || entry.note === typed?.value);
  return typed && !isKnown ? [...entries, typed] : entries;
}
