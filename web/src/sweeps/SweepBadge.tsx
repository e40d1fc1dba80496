import type { GridSweep } from "../api/types";
import { Badge, type Tone } from "../ui/Badge";

const TONES: Record<GridSweep["state"], Tone> = { running: "info", finished: "good", stopped: "warn" };

export function SweepBadge({ state }: { state: GridSweep["state"] }) {
  return <Badge tone={TONES[state]}>{state}</Badge>;
}
