// A field may change its message when it is left, and so move everything below it. If it is left by pressing something
// else, that must not move before the mouse is released, or nothing is clicked.
import { flushSync } from "react-dom";

let isPressed = false;

window.addEventListener("mousedown", () => (isPressed = true), true);
window.addEventListener("mouseup", () => (isPressed = false), true);

/** Runs it now or, while the mouse is down, just before the pressed element gets its click. */
export function afterPress(run: () => void): void {
  if (!isPressed) return run();
  let isDone = false;
  const finish = () => {
    window.removeEventListener("click", finish, true);
    if (!isDone) flushSync(run);
    isDone = true;
  };
  window.addEventListener("click", finish, true);
  // Released elsewhere, there is no click.
  window.addEventListener("mouseup", () => setTimeout(finish), { once: true, capture: true });
}
