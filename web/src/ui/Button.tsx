import type { ButtonHTMLAttributes, AnchorHTMLAttributes } from "react";

type Look = "primary" | "plain" | "danger";

const BASE =
  "inline-flex print:hidden items-center justify-center gap-2 rounded-lg px-4 font-medium transition-colors aria-disabled:cursor-not-allowed aria-disabled:opacity-60";
const LOOKS: Record<Look, string> = {
  primary: "bg-accent text-black hover:bg-[#5cffb3] font-semibold",
  plain: "border border-edge bg-transparent text-ink hover:bg-raised hover:border-soft",
  danger: "border border-bad text-bad-ink hover:bg-bad/15",
};

const SMALL = "min-h-10 text-sm";
const LARGE = "min-h-14 text-lg";

/** Disabled, it does nothing but keeps the focus, which a browser would otherwise throw to the top of the page. */
export function Button({
  look = "plain",
  isLarge = false,
  className = "",
  disabled = false,
  onClick,
  ...rest
}: ButtonHTMLAttributes<HTMLButtonElement> & { look?: Look; isLarge?: boolean }) {
  return (
    <button
      type="button"
      aria-disabled={disabled || undefined}
      onClick={disabled ? (event) => event.preventDefault() : onClick}
      className={`${BASE} ${LOOKS[look]} ${isLarge ? LARGE : SMALL} ${className}`}
      {...rest}
    />
  );
}

export function LinkButton({
  look = "plain",
  className = "",
  children,
  ...rest
}: AnchorHTMLAttributes<HTMLAnchorElement> & { look?: Look }) {
  return (
    <a className={`${BASE} ${LOOKS[look]} ${SMALL} ${className}`} {...rest}>
      {children}
    </a>
  );
}
