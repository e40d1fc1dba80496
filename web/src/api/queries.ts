// What the page knows of the service, kept fresh.
import {
  keepPreviousData,
  useInfiniteQuery,
  useMutation,
  useQueries,
  useQuery,
  useQueryClient,
} from "@tanstack/react-query";
import { api, type JobsFilter } from "./client";
import { UnreachableError } from "./errors";
import { merged } from "./sweep-state";
import { isFinished, type GridSweep } from "./types";

const MINUTE = 60_000;
const PAGE_SIZE = 50;
/** How often to ask for a sweep that runs, and for one that may be started again. */
const RUNNING_MS = 1_500;
const RESTING_MS = 5_000;

export function useHealth() {
  return useQuery({
    queryKey: ["health"],
    queryFn: api.health,
    retry: false,
    refetchInterval: (query) => (query.state.status === "error" ? 2_000 : 15_000),
  });
}

const modelsOptions = { queryKey: ["models"], queryFn: api.models, staleTime: 10 * MINUTE };

export function useModels() {
  return useQuery({ ...modelsOptions, select: ({ models }) => models });
}

/** What a model can be trained for. */
export function useTasks() {
  return useQuery({ ...modelsOptions, select: ({ tasks }) => tasks });
}

export function useGpus() {
  return useQuery({ queryKey: ["gpus"], queryFn: api.gpus, staleTime: 10 * MINUTE });
}

/** What can be asked for, as the service declares it. */
export function useOptions() {
  return useQuery({ queryKey: ["options"], queryFn: api.options, staleTime: 10 * MINUTE });
}

const jobOptions = (id: string) => ({
  queryKey: ["job", id],
  queryFn: ({ signal }: { signal: AbortSignal }) => api.job(id, { signal }),
});

/** A job; while it waits in the queue, its place is asked for again and again. */
export function useJob(id: string) {
  return useQuery({
    ...jobOptions(id),
    refetchInterval: (query) => (query.state.data && !isFinished(query.state.data.state) ? 1_500 : false),
    staleTime: (query) => (query.state.data && isFinished(query.state.data.state) ? Infinity : 0),
  });
}

export function useManyJobs(ids: readonly string[]) {
  return useQueries({ queries: ids.map((id) => ({ ...jobOptions(id), staleTime: MINUTE })) });
}

export function useJobs(filter: Pick<JobsFilter, "model" | "state" | "search">) {
  return useInfiniteQuery({
    queryKey: ["jobs", filter],
    queryFn: ({ pageParam, signal }) => api.jobs({ ...filter, before: pageParam, limit: PAGE_SIZE }, { signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    placeholderData: keepPreviousData,
  });
}

export function useSweeps() {
  return useInfiniteQuery({
    queryKey: ["sweeps"],
    queryFn: ({ pageParam, signal }) => api.sweeps({ before: pageParam, limit: PAGE_SIZE }, { signal }),
    initialPageParam: undefined as string | undefined,
    getNextPageParam: (page) => page.next ?? undefined,
    refetchInterval: ({ state }) => {
      const isRunning = state.data?.pages.some(({ sweeps }) => sweeps.some((sweep) => sweep.state === "running"));
      return isRunning ? RUNNING_MS : RESTING_MS;
    },
  });
}

/** A sweep, kept up to date: each call asks only for the cases that have changed since the one before. */
export function useSweep(id: string) {
  const client = useQueryClient();
  const queryKey = ["sweep", id];
  return useQuery({
    queryKey,
    queryFn: async ({ signal }) => {
      let known = client.getQueryData<GridSweep>(queryKey);
      do {
        known = merged(known, await api.sweep(id, known?.upto ?? 0, { signal }));
      } while (known.more);
      return known;
    },
    refetchInterval: ({ state }) => (state.data?.state === "running" ? RUNNING_MS : RESTING_MS),
    structuralSharing: false,
  });
}

/** The events of a job that has ended. */
export function usePastEvents(id: string, enabled = true) {
  return useQuery({
    queryKey: ["events", id],
    queryFn: ({ signal }) => api.events(id, 0, { signal }),
    enabled,
    staleTime: Infinity,
  });
}

export function useCancel(id: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: () => api.cancel(id),
    onSuccess: (job) => {
      client.setQueryData(["job", id], job);
      void client.invalidateQueries({ queryKey: ["jobs"] });
    },
  });
}

/** One more try for a server that is away; what it refuses, it will refuse again. */
export function shouldRetry(failures: number, error: Error): boolean {
  return failures < 1 && error instanceof UnreachableError;
}
