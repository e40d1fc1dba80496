import { useEffect, useState } from "react";
import { Button } from "./Button";
import { CheckIcon, CopyIcon } from "./icons";

/** Copies a text, and says that it did. */
export function CopyButton({ text, label }: { text: string; label: string }) {
  const [said, setSaid] = useState<string | null>(null);
  useEffect(() => {
    if (!said) return undefined;
    const timer = setTimeout(() => setSaid(null), 1_800);
    return () => clearTimeout(timer);
  }, [said]);
  const copy = () => void copied(text).then((done) => setSaid(done ? "Copied" : "Press Ctrl+C"));
  return (
    <Button onClick={copy} className="min-w-28">
      {said === "Copied" ? <CheckIcon className="size-4 text-accent" /> : <CopyIcon className="size-4" />}
      <span aria-live="polite">{said ?? label}</span>
    </Button>
  );
}

async function copied(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedTheOldWay(text);
  }
}

/** Pages that are not served over https or localhost have no clipboard. */
function copiedTheOldWay(text: string): boolean {
  const area = document.createElement("textarea");
  area.value = text;
  area.style.position = "fixed";
  area.style.opacity = "0";
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}
