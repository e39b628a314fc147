import { jsonExcess } from "@tare/wire/internal";

/** So long somebody's messages are worked off without a break, in milliseconds, and so long is the break. */
const STRETCH_MS = 10;

/** Lets others have the processor half of the time, while much is to be done. */
export class Breaks {
  #worked = 0;
  #since = performance.now();

  /** What went before was waiting. */
  goOn(): void {
    this.#since = performance.now();
  }

  /** To be waited for between two pieces of the work. */
  async due(): Promise<void> {
    const now = performance.now();
    this.#worked += now - this.#since;
    this.#since = now;
    if (this.#worked < STRETCH_MS) return;
    await new Promise((resolve) => setTimeout(resolve, STRETCH_MS));
    this.#worked = 0;
    this.goOn();
  }
}

/** So many messages that nobody asked for are taken from a server in a second. */
const MAX_NOTES = 100;

const SECOND_MS = 1_000;

/** What says that a server's tools are others now. */
const LIST_CHANGED = "notifications/tools/list_changed";

/** What a transport calls with each message of its server. */
type Receive = (message: unknown, ...more: readonly unknown[]) => void;

/** Limits a server's notifications and requests per second; further ones are dropped, tool changes go to `onChanged`. */
export function limitNotes(transport: object, onChanged: () => void): void {
  let receive: Receive | undefined;
  let [since, taken] = [-Infinity, 0];
  const hand: Receive = (message, ...more) => {
    const { method } = Object(message) as { readonly method?: unknown };
    if (method === undefined) return receive?.(message, ...more);
    if (method === LIST_CHANGED) return onChanged();
    const now = performance.now();
    if (now - since >= SECOND_MS) [since, taken] = [now, 0];
    if (++taken <= MAX_NOTES) receive?.(message, ...more);
  };
  Object.defineProperty(transport, "onmessage", {
    get: () => receive && hand,
    set(handler: Receive | undefined) {
      receive = handler;
    },
  });
}

/** So large a message may be handed on unlooked at, in bytes. */
const LARGE_BYTES = 65_536;

/** Returns why a message as JSON bytes can't be parsed: its values would block the process. */
export function excessOf(bytes: Uint8Array<ArrayBuffer>): string | undefined {
  return bytes.length > LARGE_BYTES ? jsonExcess(bytes) : undefined;
}
