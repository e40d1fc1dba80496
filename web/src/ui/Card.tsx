import { useId, type ReactNode } from "react";

interface CardProps {
  title: string;
  note?: ReactNode;
  action?: ReactNode;
  className?: string;
  children: ReactNode;
}

/** A titled part of a page. */
export function Card({ title, note, action, className = "", children }: CardProps) {
  const id = useId();
  return (
    <section aria-labelledby={id} className={`card min-w-0 p-5 sm:p-6 ${className}`}>
      <div className="mb-4 flex flex-wrap items-start justify-between gap-x-4 gap-y-2">
        <div className="min-w-0">
          <h2 id={id} className="text-base font-semibold">
            {title}
          </h2>
          {note && <p className="mt-0.5 text-sm text-soft">{note}</p>}
        </div>
        {action}
      </div>
      {children}
    </section>
  );
}
