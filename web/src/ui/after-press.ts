// A field that is left by pressing something else may change what it says, and so where everything below it stands. What
// is pressed must still be there when the mouse is let go, or nothing is clicked.
import { flushSync } from "react-dom";

let isPressed = false;

window.addEventListener("mousedown", () => (isPressed = true), true);
window.addEventListener("mouseup", () => (isPressed = false), true);

/** Runs it now, or, while the mouse is down, just before what is pressed hears of its click. */
export function afterPress(run: () => void): void {
  if (!isPressed) return run();
  let isDone = false;
  const finish = () => {
    window.removeEventListener("click", finish, true);
    if (!isDone) flushSync(run);
    isDone = true;
  };
  window.addEventListener("click", finish, true);
  // Let go elsewhere, there is no click.
  window.addEventListener("mouseup", () => setTimeout(finish), { once: true, capture: true });
}
