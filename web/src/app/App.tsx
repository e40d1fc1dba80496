import { Suspense, lazy, useEffect, useRef } from "react";
import { AnalyzePage } from "../front/AnalyzePage";
import { GpusPage } from "../gpus/GpusPage";
import { JobLoading } from "../job/JobLoading";
import { Announcer } from "./Announcer";
import { Footer } from "./Footer";
import { Header } from "./Header";
import { RecordingBanner } from "./RecordingBanner";
import type { Route } from "../shared/route";
import { ServerAway } from "./ServerAway";
import { TokenDialog } from "./TokenDialog";
import { UnknownPage } from "./UnknownPage";
import { useHash, useRoute } from "../shared/use-route";

// The form is loaded at once; the views of answers are loaded with the first answer.
const ComparePage = lazy(() => import("../compare/ComparePage").then((module) => ({ default: module.ComparePage })));
const HistoryPage = lazy(() => import("../history/HistoryPage").then((module) => ({ default: module.HistoryPage })));
const JobPage = lazy(() => import("../job/JobPage").then((module) => ({ default: module.JobPage })));
const SweepsPage = lazy(() => import("../sweeps/SweepsPage").then((module) => ({ default: module.SweepsPage })));
const SweepPage = lazy(() => import("../sweeps/SweepPage").then((module) => ({ default: module.SweepPage })));

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
        Skip to content
      </a>
      <Header route={route} />
      <RecordingBanner />
      <main
        id="main"
        ref={main}
        tabIndex={-1}
        className="mx-auto min-h-dvh w-full max-w-[82rem] grow px-4 pt-6 pb-16 outline-none sm:px-6 sm:pt-8"
      >
        <Suspense fallback={<JobLoading />}>
          <Page route={route} />
        </Suspense>
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
    case "sweeps":
      return <SweepsPage />;
    case "sweep":
      return <SweepPage key={route.id} id={route.id} view={route.view} />;
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
