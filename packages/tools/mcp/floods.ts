import { jsonExcess } from "@tare/wire/internal";

const STRETCH_MS = 10;

/** Yields half of the processor time to others. */
export class Breaks {
  #worked = 0;
  #since = performance.now();

  resume(): void {
    this.#since = performance.now();
  }

  /** Pauses if due; await it between two pieces of work. */
  async due(): Promise<void> {
    const now = performance.now();
    this.#worked += now - this.#since;
    this.#since = now;
    if (this.#worked < STRETCH_MS) return;
    await new Promise((resolve) => setTimeout(resolve, STRETCH_MS));
    this.#worked = 0;
    this.resume();
  }
}

/** Maximum of unsolicited messages per second and server. */
const MAX_NOTES = 100;

const SECOND_MS = 1_000;

const LIST_CHANGED = "notifications/tools/list_changed";

type Receive = (message: unknown, ...more: readonly unknown[]) => void;

/**
 * Limits a server's notifications and requests per second; further ones are dropped, tool changes go to
 * `onChanged`.
 */
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

const LARGE_BYTES = 65_536;

/** Returns why a JSON message can't be parsed: its number of values would block the process. */
export function excessOf(bytes: Uint8Array<ArrayBuffer>): string | undefined {
  return bytes.length > LARGE_BYTES ? jsonExcess(bytes) : undefined;
}
