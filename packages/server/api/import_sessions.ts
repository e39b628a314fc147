import type { Message } from "@tare/messages";
import { seedHistory } from "../sessions/seed_history.ts";
import type { Session } from "../sessions/session.ts";
import type { Sessions } from "../sessions/sessions.ts";

/**
 * Makes a session of each list of messages; its history is exactly these. All are made or none: if one can't be, those
 * before it are deleted again.
 *
 * @throws {StoreError} if one can't be stored.
 */
export async function importSessions(
  histories: readonly (readonly Message[])[],
  sessions: Sessions,
): Promise<readonly Session[]> {
  const made: Session[] = [];
  try {
    for (const messages of histories) {
      const [first] = messages;
      const instructions = first && instructionsOf(first);
      const session = await sessions.create({ instructions: instructions ?? "" });
      made.push(session);
      seedHistory(session, instructions === undefined ? messages : messages.slice(1));
    }
    return made;
  } catch (error) {
    for (const session of made) await sessions.delete(session);
    throw error;
  }
}

/** What a session is told as its instructions, if the message is no more than these. */
function instructionsOf(message: Message): string | undefined {
  const { role, content, ...rest } = message;
  if (role !== "system" || typeof content !== "string" || Object.keys(rest).length > 0) return undefined;
  return content === "" ? undefined : content;
}
