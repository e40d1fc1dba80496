import * as Dialog from "@radix-ui/react-dialog";
import { useQueryClient } from "@tanstack/react-query";
import { useId, useState } from "react";
import { setToken } from "../api/token";
import { useToken } from "../api/use-token";
import { Button } from "../ui/Button";

/** Asks for the token when the server requires one. */
export function TokenDialog() {
  const { wanted, token } = useToken();
  const client = useQueryClient();
  const [typed, setTyped] = useState("");
  const id = useId();
  const save = () => {
    setToken(typed.trim());
    void client.invalidateQueries();
  };
  return (
    <Dialog.Root open={wanted}>
      <Dialog.Portal>
        <Dialog.Overlay className="fixed inset-0 z-50 bg-black/70" />
        <Dialog.Content
          onEscapeKeyDown={(event) => event.preventDefault()}
          className="card fixed top-1/2 left-1/2 z-50 w-[min(28rem,calc(100vw-2rem))] -translate-x-1/2 -translate-y-1/2 p-6"
        >
          <Dialog.Title className="text-lg font-semibold">This server requires a token</Dialog.Title>
          <Dialog.Description className="mt-1 text-sm text-soft">
            Ask whoever runs the server. The token is kept for this tab only.
          </Dialog.Description>
          <form
            className="mt-4 space-y-4"
            onSubmit={(event) => {
              event.preventDefault();
              save();
            }}
          >
            <div>
              <label htmlFor={id} className="mb-1.5 block text-sm font-medium">
                Token
              </label>
              <input
                id={id}
                type="password"
                autoComplete="off"
                value={typed}
                onChange={(event) => setTyped(event.target.value)}
                aria-describedby={token ? `${id}-error` : undefined}
                className="field font-mono"
              />
              {token && (
                <p id={`${id}-error`} role="alert" className="mt-1 text-xs text-bad-ink">
                  That token was not accepted.
                </p>
              )}
            </div>
            <Button look="primary" type="submit" disabled={!typed.trim()} className="w-full">
              Continue
            </Button>
          </form>
        </Dialog.Content>
      </Dialog.Portal>
    </Dialog.Root>
  );
}
