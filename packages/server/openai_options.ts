import type { Model } from "@tare/loop";
import type { DocumentStore } from "./document_store.ts";
import type { TurnOptions } from "./run_turn.ts";
import type { Sessions } from "./sessions.ts";
import type { TurnSlots } from "./turn_slots.ts";

/** What the OpenAI-compatible routes need. */
export interface OpenaiOptions extends Omit<TurnOptions, "model"> {
  /** The server's sessions. */
  readonly sessions: Pick<Sessions, "create" | "get">;
  /** The model port for a model's name. */
  readonly model: (name: string) => Model;
  /** What every agent is told first; the client's instructions follow. Default: `DEFAULT_INSTRUCTIONS`. */
  readonly instructions?: string;
  /** Keeps stored responses, and where known conversations stand. */
  readonly documents: DocumentStore;
  /** Limits how many turns run at once. */
  readonly slots: Pick<TurnSlots, "take">;
  /** The time in milliseconds since the epoch. Default: `Date.now`. */
  readonly now?: () => number;
}
