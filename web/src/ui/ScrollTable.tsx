import type { ReactNode } from "react";

/** A table that may be wider than the page; the keyboard can scroll it. */
export function ScrollTable({ label, children }: { label: string; children: ReactNode }) {
  return (
    // A scrolling region must take the focus, or the keyboard cannot scroll it.
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <div role="region" aria-label={label} tabIndex={0} className="relative -mx-1 overflow-x-auto px-1">
      {children}
    </div>
  );
}
