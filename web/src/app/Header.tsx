import { useHealth } from "../api/queries";
import { Logo } from "../ui/icons";
import { link, type Route } from "../shared/route";

const PAGES = [
  { page: "analyze", name: "Analyze", address: link.analyze() },
  { page: "gpus", name: "All GPUs", address: link.gpus() },
  { page: "compare", name: "Compare", address: link.compare() },
  { page: "sweeps", name: "Sweeps", address: link.sweeps() },
  { page: "history", name: "History", address: link.history() },
] as const;

export function Header({ route }: { route: Route }) {
  return (
    <header className="z-30 border-b border-line bg-page/95 backdrop-blur-sm sm:sticky sm:top-0">
      <div className="mx-auto flex w-full max-w-[82rem] flex-wrap items-center gap-x-6 px-4 sm:h-16 sm:flex-nowrap sm:px-6">
        <a href={link.analyze()} className="flex h-14 min-w-0 items-center gap-3 rounded-lg">
          <Logo className="size-8 shrink-0" />
          <span className="min-w-0 leading-tight">
            <span className="block font-semibold tracking-tight">MemoryMark</span>
            <span className="block truncate text-xs text-soft">GPU Memory Waste Detector</span>
          </span>
        </a>
        <div className="ml-auto sm:order-last sm:ml-0">
          <ServerStatus />
        </div>
        <nav aria-label="Pages" className="-mx-1 w-[calc(100%+0.5rem)] sm:mx-0 sm:ml-auto sm:w-auto">
          <ul className="flex">
            {PAGES.map(({ page, name, address }) => (
              <li key={page} className="grow text-center sm:grow-0">
                <a
                  href={address}
                  aria-current={route.page === page ? "page" : undefined}
                  className="relative flex h-11 items-center justify-center px-2 text-sm text-soft transition-colors hover:text-ink aria-[current=page]:text-ink aria-[current=page]:after:absolute aria-[current=page]:after:inset-x-2 aria-[current=page]:after:bottom-0 aria-[current=page]:after:h-0.5 aria-[current=page]:after:bg-accent sm:h-16 sm:px-3 sm:aria-[current=page]:after:inset-x-3"
                >
                  {name}
                </a>
              </li>
            ))}
          </ul>
        </nav>
      </div>
    </header>
  );
}

/** Whether the server is there, and what it can measure on. */
function ServerStatus() {
  const { data, isError } = useHealth();
  const [color, text, short] = isError
    ? ["bg-bad", "Server unreachable, retrying…", "Offline"]
    : !data
      ? ["bg-edge", "Connecting…", "…"]
      : data.status === "degraded"
        ? ["bg-warn", data.problem ?? "Degraded", "Degraded"]
        : data.recording
          ? ["bg-warn", "Plays a recording", "Recorded"]
          : [
              "bg-accent",
              data.gpu_available ? `Measures on ${data.gpu_name ?? "this machine"}` : "No GPU: predictions only",
              "Online",
            ];
  return (
    <p
      role="status"
      title={text}
      className="flex items-center gap-2 rounded-full border border-line px-3 py-1.5 text-xs text-soft lg:w-52"
    >
      <span aria-hidden="true" className={`size-2 shrink-0 rounded-full ${color}`} />
      <span className="hidden truncate lg:inline">{text}</span>
      <span className="lg:hidden">{short}</span>
    </p>
  );
}
