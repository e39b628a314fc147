import { addLedgers, EMPTY_LEDGER, type TurnEnd, type TurnLedger } from "@tare/loop";
import type { Store } from "@tare/conversation";
import { asSessionEvent, type SessionEvent } from "../sessions/event_log.ts";
import { rebuildHistory } from "../sessions/rebuild_history.ts";

/** A helper of a session: which call it was made for, and the session that it works in. */
export interface HelperLink {
  /** Id of the call. */
  readonly id: string;
  /** Id of the helper's session. */
  readonly session: string;
}

/** The helpers that a session's events tell of, the oldest first. */
export function helperLinks(events: readonly SessionEvent[]): readonly HelperLink[] {
  return events.flatMap((event) => {
    if (event.type !== "helper_started") return [];
    const { id, session } = event;
    return [{ id, session }];
  });
}

/** What a call comes to. */
export interface HelperResult {
  readonly content: string;
  readonly error: boolean;
}

/** What a helper brings back: its answer, or what it said until its turn ended without one. */
export function resultOfHelper(
  { reason, text, message }: Pick<TurnEnd, "reason" | "text" | "message">,
  session: string,
): HelperResult {
  if (reason === "completed" && text !== "") return { content: text, error: false };
  const why = message ?? `Its turn ended (${reason}).`;
  const said = text === "" ? "It had said nothing." : `What it had said last:\n\n${text}`;
  return {
    content: `The helper ended without an answer. ${why} Its session is ${session}. ${said}`,
    error: true,
  };
}

/** What is stored of the turn for which a helper was made. */
export interface StoredHelper extends HelperLink {
  /** What it cost. */
  readonly ledger: TurnLedger;
  /** How it ended, if it did. */
  readonly end?: TurnEnd;
}

/** The events that say what a turn cost and how it ended. */
const COST_EVENTS: readonly SessionEvent["type"][] = ["turn_start", "step_end", "turn_end"];

/** Reads what came of a session's helpers. One that was deleted has cost what nobody knows any more. @throws {StoreError} */
export function readHelpers(links: readonly HelperLink[], store: Store): Promise<readonly StoredHelper[]> {
  return Promise.all(links.map(async (link) => {
    if (!await store.getSession(link.session)) return { ...link, ledger: EMPTY_LEDGER };
    const stored = await store.readEvents(link.session, { types: COST_EVENTS });
    const events = stored.map(({ event }) => asSessionEvent(event));
    const at = events.findIndex(({ type }) => type === "turn_end");
    // Whatever somebody asks of the helper's session later is paid for there.
    const { ledger } = rebuildHistory(at < 0 ? events : events.slice(0, at + 1));
    const end = events[at];
    return { ...link, ledger: { ...ledger, saved: {} }, ...(end?.type === "turn_end" && { end }) };
  }));
}

/** What a call for a helper comes to that nobody answered before the server ended. */
export function interruptedHelper({ session, end }: StoredHelper): HelperResult {
  if (end && end.reason !== "interrupted") return resultOfHelper(end, session);
  const content =
    `Cannot tell the result: interrupted, outcome unknown. What the helper did until then stands in its ` +
    `session, ${session}. It may have taken effect: find out before you call it again.`;
  return { content, error: true };
}

/** What several helpers cost together. */
export function costOf(helpers: readonly StoredHelper[]): TurnLedger {
  return helpers.reduce((sum, { ledger }) => addLedgers(sum, ledger), EMPTY_LEDGER);
}

const SHOWN_CHARS = 200;

/** What those who watch a helper are shown of what happens there, a line each; of most events nothing. */
export function lineOf(event: SessionEvent): string | undefined {
  switch (event.type) {
    case "tool_call":
      return `${event.name} ${event.arguments.slice(0, SHOWN_CHARS)}\n`;
    case "assistant_message": {
      const { content } = event.message;
      return typeof content === "string" && content.trim() !== ""
        ? `${content.trim().slice(0, SHOWN_CHARS).replaceAll(/\s+/g, " ")}\n`
        : undefined;
    }
    case "tool_result":
      return event.error
        ? `${event.name} failed: ${event.content.slice(0, SHOWN_CHARS).split("\n")[0]}\n`
        : undefined;
    default:
      return undefined;
  }
}
