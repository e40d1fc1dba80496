import { useEffect, useRef } from "react";
import { useHash, useRoute } from "./hooks/use-route";
import { Announcer } from "./layout/Announcer";
import { Footer } from "./layout/Footer";
import { Header } from "./layout/Header";
import { ServerAway } from "./layout/ServerAway";
import { TokenDialog } from "./layout/TokenDialog";
import type { Route } from "./logic/route";
import { AnalyzePage } from "./pages/AnalyzePage";
import { ComparePage } from "./pages/ComparePage";
import { GpusPage } from "./pages/GpusPage";
import { HistoryPage } from "./pages/HistoryPage";
import { JobPage } from "./pages/JobPage";
import { UnknownPage } from "./pages/UnknownPage";

export function App() {
  const route = useRoute();
  const main = useFreshStart();
  return (
    <div className="flex min-h-dvh flex-col">
      <a
        href="#main"
        onClick={(event) => {
          event.preventDefault();
          main.current?.focus();
        }}
        className="sr-only z-50 rounded-lg bg-accent px-4 py-2 font-medium text-black focus:not-sr-only focus:absolute focus:top-3 focus:left-3"
      >
        Skip to the content
      </a>
      <Header route={route} />
      <main
        id="main"
        ref={main}
        tabIndex={-1}
        className="mx-auto min-h-dvh w-full max-w-[82rem] grow px-4 pt-6 pb-16 outline-none sm:px-6 sm:pt-8"
      >
        <Page route={route} />
      </main>
      <Footer />
      <Announcer />
      <ServerAway />
      <TokenDialog />
    </div>
  );
}

function Page({ route }: { route: Route }) {
  switch (route.page) {
    case "analyze":
      return <AnalyzePage />;
    case "gpus":
      return <GpusPage />;
    case "history":
      return <HistoryPage />;
    case "compare":
      return <ComparePage ids={route.ids} />;
    case "job":
      return <JobPage key={route.id} id={route.id} part={route.part} />;
    case "unknown":
      return <UnknownPage />;
  }
}

/** A new page begins at its top, for the eye and for a screen reader. */
function useFreshStart() {
  const main = useRef<HTMLElement>(null);
  const path = useHash().split("?")[0];
  const before = useRef(path);
  useEffect(() => {
    if (before.current === path) return;
    before.current = path;
    window.scrollTo(0, 0);
    main.current?.focus({ preventScroll: true });
  }, [path]);
  return main;
}
