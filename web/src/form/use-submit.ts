import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { api } from "../api/client";
import type { Values } from "../api/types";
import { link } from "../shared/route";
import { goTo } from "../shared/use-route";

/** Asks a question and goes to its job. */
export function useSubmit() {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (values: Values) => api.submit(values),
    onSuccess: ({ job, reused }) => {
      client.setQueryData(["job", job.id], job);
      client.setQueryData(["reused", job.id], reused);
      void client.invalidateQueries({ queryKey: ["jobs"] });
      goTo(link.job(job.id));
    },
  });
}

/** Whether the job had answered the same question before this page asked. */
export function useWasReused(id: string): boolean {
  return useQuery({ queryKey: ["reused", id], queryFn: () => false, staleTime: Infinity }).data ?? false;
}
