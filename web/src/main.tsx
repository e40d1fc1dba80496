import { MutationCache, QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { UnreachableError } from "./api/errors";
import { shouldRetry } from "./api/queries";
import { App } from "./app/App";
import { DraftProvider } from "./form/use-draft";
import "./styles.css";

/** A call that finds the server away triggers a health check, and every page shows the outcome. */
function onError(error: Error): void {
  if (error instanceof UnreachableError && client.getQueryState(["health"])?.status !== "error") {
    void client.invalidateQueries({ queryKey: ["health"] });
  }
}

// The service may be on this machine, which works without a network too.
const client = new QueryClient({
  queryCache: new QueryCache({ onError }),
  mutationCache: new MutationCache({ onError }),
  defaultOptions: {
    queries: { networkMode: "always", retry: shouldRetry, retryDelay: 800 },
    mutations: { networkMode: "always" },
  },
});

createRoot(document.getElementById("root")!).render(
  <StrictMode>
    <QueryClientProvider client={client}>
      <DraftProvider>
        <App />
      </DraftProvider>
    </QueryClientProvider>
  </StrictMode>,
);
