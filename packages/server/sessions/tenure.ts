import type { Content } from "@tare/messages";
import type { Pin } from "@tare/planner";
import {
  type Hold,
  type Holding,
  type SharedStore,
  type Store,
  StoreError,
  type StoreRecord,
} from "@tare/conversation";
import { HttpError, toHttpError } from "../http/http_error.ts";

/** What a tenure is of. */
export interface TenureOptions {
  /** Id of the session. */
  readonly id: string;
  readonly store: Store;
  readonly shared: SharedStore;
  /** Told as soon as another server may have taken the session. */
  readonly lost: () => void;
  /** Told of an answer that nobody waited for any more. */
  readonly onError: (error: unknown) => void;
}

/** Whether this server may change a session, where several have the store open, and what it knows of it. */
export class Tenure {
  readonly #options: TenureOptions;
  #hold: Hold | undefined;
  #unhear = () => {};
  /** Number of the newest hold, if memory knows all that was written up to its end. */
  #known: number | undefined;
  /** Who waits for the end of what runs: ids of requests. */
  #owed: readonly string[] = [];

  /** The session isn't held. */
  constructor(options: TenureOptions) {
    this.#options = options;
  }

  /** Absent if the session isn't held here. */
  get hold(): Hold | undefined {
    return this.#hold;
  }

  /** Takes the session; says whether memory knows all of it, or nothing if another server has it. @throws {StoreError} */
  async take(): Promise<"known" | "stale" | undefined> {
    if (this.#hold) return "known";
    const { id, shared, lost } = this.#options;
    const hold = await shared.hold(id);
    if (!hold || hold.signal.aborted) return undefined;
    hold.signal.addEventListener("abort", lost, { once: true });
    this.#unhear = () => hold.signal.removeEventListener("abort", lost);
    this.#hold = hold;
    return this.#known === hold.fence - 1 ? "known" : "stale";
  }

  /** Answers what is owed and gives the session back. `isKnown` says whether memory is right. @throws {StoreError} */
  async release(isKnown: boolean): Promise<void> {
    const { id, store, shared, onError } = this.#options;
    const hold = this.#hold;
    if (!hold) return;
    const owed = this.#owed;
    this.#owed = [];
    for (const requestId of owed) {
      await store.commit([{ type: "answer", requestId, answer: {} }]).catch(onError);
    }
    await shared.release(id);
    if (this.#hold === hold) this.drop(isKnown ? hold.fence : undefined);
  }

  /** The session isn't held any more. What is known of it stands as of the hold of this number. */
  drop(known?: number): void {
    this.#unhear();
    this.#hold = undefined;
    this.#known = known;
    this.#owed = [];
  }

  /** Who asked for this will be answered once nothing runs any more. */
  owe(requestId: string): void {
    this.#owed = [...this.#owed, requestId];
  }

  /** Asks something of the server that holds the session. False if none does. @throws {HttpError} what that one answers. */
  async ask(wanted: Wanted): Promise<boolean> {
    const asked = await this.#options.shared.ask(this.#options.id, wanted);
    if (asked) assertTold(asked.answer);
    return asked !== undefined;
  }

  /** Who holds the session, and whether memory knows all of it. @throws {StoreError} */
  async look(): Promise<Holding & { readonly isKnown: boolean }> {
    const seen = await this.#options.shared.look(this.#options.id);
    return { ...seen, isKnown: seen.holder === "nobody" && seen.fence === this.#known };
  }

  /** Memory knows all that was written up to the end of the hold of this number; nothing is known without one. */
  knows(fence: number | undefined): void {
    this.#known = fence;
  }
}

/** What is thrown where the session may be another server's by now. */
export function lostError(id: string): StoreError {
  return new StoreError(
    "fenced",
    `Cannot go on in session ${id}: another server may have taken it. What it wrote counts.`,
  );
}

/** Whether this is what a store says to those who don't hold the session any more. */
export function isFenced(error: unknown): boolean {
  return error instanceof StoreError && error.code === "fenced";
}

/** What one server asks of the one that holds a session. The latter does it if a turn runs there; else the former may. */
export type Wanted =
  /** Nothing but to know whether a turn runs. */
  | { readonly do: "know" }
  | { readonly do: "cancel" }
  | { readonly do: "steer"; readonly input: Content; readonly records: readonly StoreRecord[] }
  | { readonly do: "pin"; readonly change: PinChange; readonly records: readonly StoreRecord[] };

/** What is asked for of a message, or that nothing is any more. */
export type PinChange = { readonly set: Pin } | { readonly remove: number };

/** How the holder answers: with what went wrong, if anything did. */
export interface Told {
  readonly error?: Pick<HttpError, "status" | "code" | "message">;
}

/** What a client is told of this, as an answer to who asked. */
export function toldError(error: unknown): Told {
  const { status, code, message } = toHttpError(error);
  return { error: { status, code, message } };
}

/** Throws what the holder answered, if that is an error. @throws {HttpError} */
function assertTold(answer: unknown): void {
  const { error } = answer as Told;
  if (error) throw new HttpError(error.status, error.code, error.message);
}
