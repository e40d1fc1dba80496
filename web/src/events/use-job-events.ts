import { useQueryClient } from "@tanstack/react-query";
import { startTransition, useEffect, useState } from "react";
import { watchJob, type Connection } from "../api/watch";
import type { JobEvent } from "../api/types";
import { NOTHING_YET, advance, type JobProgress } from "./job-progress";

export interface JobEvents {
  progress: JobProgress;
  connection: Connection;
}

const DRAW_EVERY_MS = 100;

/** The events of a job as they happen. Events that arrive within a moment are drawn together, and never hold up the page. */
export function useJobEvents(id: string): JobEvents {
  const client = useQueryClient();
  const [progress, setProgress] = useState(NOTHING_YET);
  const [connection, setConnection] = useState<Connection>("connecting");

  useEffect(() => {
    const stop = new AbortController();
    let waiting: JobEvent[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const draw = () => {
      timer = undefined;
      const events = waiting;
      waiting = [];
      startTransition(() => setProgress((before) => advance(before, events)));
    };
    const onEvents = (events: JobEvent[]) => {
      waiting.push(...events);
      timer ??= setTimeout(draw, DRAW_EVERY_MS);
    };
    const refresh = () => {
      if (stop.signal.aborted) return;
      void client.invalidateQueries({ queryKey: ["job", id] });
      void client.invalidateQueries({ queryKey: ["jobs"] });
    };
    watchJob(id, { onEvents, onConnection: setConnection, signal: stop.signal }).then(refresh, refresh);
    return () => {
      stop.abort();
      clearTimeout(timer);
      setProgress(NOTHING_YET);
    };
  }, [client, id]);

  return { progress, connection };
}
