// Reads a text/event-stream, however it is cut into pieces.

export interface SseMessage {
  id: string;
  event: string;
  data: string;
}

export class SseParser {
  /** The id of the last message, to resume after it. */
  lastId = "";
  /** How long the server wants us to wait before we connect again. */
  retryMs: number | null = null;

  private rest = "";
  private event = "";
  private data: string[] = [];

  /** The messages that are complete with this piece of the stream. */
  push(piece: string): SseMessage[] {
    const text = this.rest + piece;
    // A CR at the very end may be the first half of a CRLF.
    const held = text.endsWith("\r") ? "\r" : "";
    const lines = text.slice(0, text.length - held.length).split(/\r\n|\n|\r/);
    this.rest = (lines.pop() ?? "") + held;
    return lines.flatMap((line) => this.line(line));
  }

  private line(line: string): SseMessage[] {
    if (line === "") return this.dispatch();
    const colon = line.indexOf(":");
    if (colon === 0) return [];
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "id" && !value.includes("\0")) this.lastId = value;
    if (field === "event") this.event = value;
    if (field === "data") this.data.push(value);
    if (field === "retry" && /^\d+$/.test(value)) this.retryMs = Number(value);
    return [];
  }

  private dispatch(): SseMessage[] {
    const message = { id: this.lastId, event: this.event || "message", data: this.data.join("\n") };
    const isEmpty = this.data.length === 0;
    this.event = "";
    this.data = [];
    return isEmpty ? [] : [message];
  }
}
