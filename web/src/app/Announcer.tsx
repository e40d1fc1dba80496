import { useAnnouncement } from "../shared/announce";

/** Read out by a screen reader when it changes. */
export function Announcer() {
  return (
    <p role="status" aria-live="polite" aria-label="Announcement" className="sr-only">
      {useAnnouncement()}
    </p>
  );
}
