import type { Clock } from "../watchdog.ts";

/** How long output is gathered before it is shown, in milliseconds: what is there sooner is seen in the result. */
const EVERY_MS = 500;
/** Most that is shown of a call, in UTF-16 code units. */
const MAX_CHARS = 65_536;

/** Gathers what calls give while they run, so that those who watch are told now and then and not of every byte. */
export class LiveOutput {
  readonly #clock: Clock;
  readonly #pieces = new Map<string, string>();
  readonly #shown = new Map<string, number>();
  #due = Promise.withResolvers<undefined>();
  #disarm: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves once there is something to show. */
  get due(): Promise<undefined> {
    return this.#due.promise;
  }

  /** Takes the next piece of a call's output. */
  push(id: string, text: string): void {
    const room = MAX_CHARS - (this.#shown.get(id) ?? 0);
    const piece = text.slice(0, room);
    if (piece === "") return;
    this.#shown.set(id, MAX_CHARS - room + piece.length);
    this.#pieces.set(id, (this.#pieces.get(id) ?? "") + piece);
    this.#disarm ??= this.#clock.after(EVERY_MS, () => this.#due.resolve(undefined));
  }

  /** What has gathered, by call, if its time has come; nothing of the call that has `ended`, as its result says it all. */
  take(ended: string | undefined): readonly (readonly [id: string, text: string])[] {
    if (ended !== undefined) this.#pieces.delete(ended);
    if (ended !== undefined && this.#pieces.size > 0) return [];
    const gathered = [...this.#pieces];
    this.close();
    this.#pieces.clear();
    this.#due = Promise.withResolvers();
    return gathered;
  }

  /** Forgets what has gathered. */
  close(): void {
    this.#disarm?.();
    this.#disarm = undefined;
  }
}
