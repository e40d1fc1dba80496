import type { ButtonHTMLAttributes, AnchorHTMLAttributes } from "react";

type Look = "primary" | "plain" | "danger";

const BASE =
  "inline-flex items-center justify-center gap-2 rounded-lg px-4 font-medium transition-colors disabled:cursor-not-allowed disabled:opacity-60";
const LOOKS: Record<Look, string> = {
  primary: "bg-accent text-black hover:bg-[#5cffb3] font-semibold",
  plain: "border border-edge bg-transparent text-ink hover:bg-raised hover:border-soft",
  danger: "border border-bad text-bad-ink hover:bg-bad/15",
};

const SMALL = "min-h-10 text-sm";
const LARGE = "min-h-14 text-lg";

export function Button({
  look = "plain",
  isLarge = false,
  className = "",
  ...rest
}: ButtonHTMLAttributes<HTMLButtonElement> & { look?: Look; isLarge?: boolean }) {
  return (
    <button type="button" className={`${BASE} ${LOOKS[look]} ${isLarge ? LARGE : SMALL} ${className}`} {...rest} />
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
