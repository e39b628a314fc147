import type { Model } from "@tare/loop";
import type { SessionDocuments } from "@tare/store";
import type { TurnOptions } from "../sessions/run_turn.ts";
import type { Sessions } from "../sessions/sessions.ts";
import type { Heartbeat } from "../http/sse_response.ts";
import type { TurnSlots } from "../sessions/turn_slots.ts";

/** What the OpenAI-compatible routes need. */
export interface OpenaiOptions extends Omit<TurnOptions, "model" | "overBudget"> {
  /** The server's sessions. */
  readonly sessions: Pick<Sessions, "create" | "get" | "delete">;
  /** The model port for a model's name. */
  readonly model: (name: string) => Model;
  /** What every agent is told first; the client's instructions follow. Default: `DEFAULT_INSTRUCTIONS`. */
  readonly instructions?: string;
  /** Keeps responses, and where known conversations stand. */
  readonly documents: SessionDocuments;
  /** The turns that may run at once. */
  readonly slots: TurnSlots;
  /** How streams show that they are alive. */
  readonly heartbeat: Heartbeat;
  /** The time in milliseconds since the epoch. Default: `Date.now`. */
  readonly now?: () => number;
}
