import type { ReactNode, SVGProps } from "react";

type IconProps = SVGProps<SVGSVGElement>;

function Icon({ children, ...rest }: IconProps & { children: ReactNode }) {
  return (
    <svg
      viewBox="0 0 20 20"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.75"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
      {...rest}
    >
      {children}
    </svg>
  );
}

export const CloseIcon = (props: IconProps) => (
  <Icon {...props}>
    <path d="M5 5l10 10M15 5L5 15" />
  </Icon>
);

export const WarningIcon = (props: IconProps) => (
  <Icon {...props}>
    <path d="M10 3l8 14H2L10 3zM10 8.5v3.5M10 14.5v.01" />
  </Icon>
);

export const ChevronIcon = (props: IconProps) => (
  <Icon {...props}>
    <path d="M5 7.5l5 5 5-5" />
  </Icon>
);

export const CheckIcon = (props: IconProps) => (
  <Icon {...props}>
    <path d="M4 10.5l4 4 8-9" />
  </Icon>
);

export const CopyIcon = (props: IconProps) => (
  <Icon {...props}>
    <rect x="7" y="7" width="9.5" height="9.5" rx="1.5" />
    <path d="M13 7V5A1.5 1.5 0 0011.5 3.5H5A1.5 1.5 0 003.5 5v6.500A1.5 1.5 0 005 13h2" />
  </Icon>
);

export const DownloadIcon = (props: IconProps) => (
  <Icon {...props}>
    <path d="M10 3v9.500M6 9l4 4 4-4M3.500 16.500h13" />
  </Icon>
);

/** The two bars of the answer. */
export function Logo(props: IconProps) {
  return (
    <svg viewBox="0 0 32 32" aria-hidden="true" {...props}>
      <rect x="3" y="6" width="26" height="8" rx="2" fill="#3a3a3a" />
      <rect x="3" y="6" width="8" height="8" rx="2" fill="#ff4444" />
      <rect x="3" y="18" width="26" height="8" rx="2" fill="#3a3a3a" />
      <rect x="3" y="18" width="23" height="8" rx="2" fill="#00ff88" />
    </svg>
  );
}
