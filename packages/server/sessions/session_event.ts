import type { LoopEvent } from "@tare/loop";
import type { Message } from "@tare/messages";

/** Everything that happens in a session: its turns, and the messages that were said elsewhere before. */
export type SessionEvent =
  | LoopEvent
  /** The session goes on with this message, exactly as it is. It is part of no turn. */
  | { readonly type: "message_added"; readonly message: Message };
