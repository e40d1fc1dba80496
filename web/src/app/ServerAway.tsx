import { useQueryClient } from "@tanstack/react-query";
import { useEffect, useRef, useState } from "react";
import { API_URL } from "../api/client";
import { UnreachableError } from "../api/errors";
import { useHealth } from "../api/queries";
import { awayProblem } from "../shared/problems";
import { ErrorBox } from "../ui/ErrorBox";

/** Says that the server does not answer, and loads everything anew when it is back. */
export function ServerAway() {
  const client = useQueryClient();
  const { isError, error } = useHealth();
  const [isDismissed, setDismissed] = useState(false);
  const wasAway = useRef(false);
  useEffect(() => {
    if (isError) {
      wasAway.current = true;
    } else if (wasAway.current) {
      wasAway.current = false;
      setDismissed(false);
      void client.invalidateQueries();
    }
  }, [isError, client]);
  if (!isError || isDismissed || !(error instanceof UnreachableError)) return null;
  return (
    <div className="fixed inset-x-4 bottom-4 z-50 max-w-md sm:right-6 sm:left-auto shadow-2xl shadow-black">
      <ErrorBox problem={awayProblem(API_URL, location.origin)} onDismiss={() => setDismissed(true)} />
    </div>
  );
}
