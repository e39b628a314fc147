import { type LoopEvent, ModelError } from "@tare/loop";
import type { Content, ContentPart, Message } from "@tare/messages";
import type { Store, StoreRecord } from "@tare/store";
import type { Session } from "../sessions/session.ts";
import { DEFAULT_INSTRUCTIONS, type Sessions } from "../sessions/sessions.ts";
import {
  ConversationHash,
  type ConversationPoint,
  findConversation,
  type KnownBeginning,
  knownConversation,
  type Said,
} from "./known_conversations.ts";
import { type TurnAnswer, type TurnPart, turnParts } from "./turn_parts.ts";

/** A request to go on with a conversation. */
export interface ConversationRequest {
  /** What the client wants the agent to heed; it follows the server's own instructions. May be empty. */
  readonly instructions: string;
  /** What was said, at least one message of the user at its end. */
  readonly dialogue: readonly Said[];
  /** Where the conversation stood before `dialogue`. Default: `dialogue` is the whole conversation. */
  readonly after?: ConversationPoint;
  /** Who asks: conversations of different users are never mixed. */
  readonly user: string;
  /** Kept with a new session. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Output tokens after which the model isn't called again. Default: the server's. */
  readonly maxOutputTokens?: number;
}

/** Where conversations go on. */
export interface ConversationOptions {
  readonly sessions: Sessions;
  /** Keeps where known conversations stand. */
  readonly store: Store;
  /** What every agent is told first; the client's instructions follow. Default: `DEFAULT_INSTRUCTIONS`. */
  readonly instructions?: string;
}

/** A turn that runs for a client of the OpenAI-compatible routes. */
export interface ConversationTurn {
  /** The session that it runs in. */
  readonly sessionId: string;
  readonly parts: AsyncGenerator<TurnPart, TurnAnswer>;
  readonly cancel: () => void;
  /** Where its session stands, once it has ended; never rejects. */
  readonly done: Promise<ConversationPoint>;
  /** Once it has ended: makes the conversation known by its content, this answer included, in one commit with `more`. */
  readonly remember: (answer: string, more?: readonly StoreRecord[]) => Promise<void>;
}

/**
 * Goes on with a conversation that a client sends as a whole: starts its next turn.
 *
 * - If its beginning is known, up to the newest answer, and nothing else has happened in its session since, the turn
 *   runs there, and the session's ledger and view go on.
 * - If the client went back to an earlier answer, or its session is busy, the turn runs in a new session with the
 *   history up to there, tool results included. Whatever isn't known is added as the client tells it.
 * - If it was sent before and its turn ended without an answer, that turn goes on: no tool call is made twice.
 * - A new session whose turn fails before the model has answered once is deleted again.
 *
 * @throws {HttpError} 404 if `after` names a session that is gone; 429 if no more turns are allowed now; 507 if no more
 * sessions may be kept.
 */
export async function continueConversation(
  request: ConversationRequest,
  options: ConversationOptions,
): Promise<ConversationTurn> {
  const giveBack = options.sessions.slots.take();
  try {
    return await findAndStart(request, { ...options, giveBack });
  } catch (error) {
    giveBack();
    throw error;
  }
}

async function findAndStart(
  { dialogue, after, user, metadata, ...request }: ConversationRequest,
  { sessions, store, giveBack, ...options }: ConversationOptions & { readonly giveBack: () => void },
): Promise<ConversationTurn> {
  const instructions = [options.instructions ?? DEFAULT_INSTRUCTIONS, request.instructions]
    .filter((text) => text !== "").join("\n\n");
  const hash = new ConversationHash([user, instructions, ...(after ? Object.values(after).map(String) : [])]);
  const keys = dialogue.map((said) => hash.add(said));
  const pastLength = dialogue.findLastIndex(({ role }) => role === "assistant") + 1;

  const start = async (
    session: Session,
    input: Content | undefined,
    when: () => boolean,
  ): Promise<ConversationTurn | undefined> => {
    const sessionId = session.id;
    const keep = () =>
      input === undefined
        ? []
        : [knownConversation(keys.at(-1) ?? "", { sessionId, messages: session.history.length })];
    const { maxOutputTokens } = request;
    const turn = await session.start({ input, maxOutputTokens, giveBack, keep }, when);
    if (!turn) return undefined;
    const done = turn.done.then(({ messages }): ConversationPoint => ({ sessionId, messages }));
    return {
      sessionId,
      parts: turnParts(eventsAfter(session, turn.before), async () => {
        const { error } = await turn.done;
        return error instanceof ModelError ? error.retryAfterMs : undefined;
      }),
      cancel: turn.cancel,
      done,
      async remember(answer, more = []) {
        const isSaid = answer.trim() !== "";
        const key = hash.add({ role: "assistant", content: answer });
        await store.commit([...more, ...(isSaid ? [knownConversation(key, await done)] : [])]);
      },
    };
  };

  const asked = await findConversation(store, keys.slice(-1));
  if (asked) {
    const session = await sessions.get(asked.point.sessionId);
    const turn = await start(
      session,
      undefined,
      () => !session.isRunning && isUnanswered(session.history.slice(asked.point.messages)),
    );
    if (turn) return turn;
  }

  const input = joinContents(dialogue.slice(pastLength).map(({ content }) => content));
  const known = after
    ? { point: after, length: 0 }
    : await findConversation(store, keys.slice(0, pastLength));
  const knownSession = known && await sessions.get(known.point.sessionId);
  const rest = dialogue.slice(known?.length ?? 0, pastLength);
  if (known && knownSession && rest.length === 0) {
    const turn = await start(knownSession, input, () => isFree(knownSession, known, instructions));
    if (turn) return turn;
  }

  const said = known && knownSession ? saidBefore(knownSession, known.point) : [];
  const messages = [...said, ...rest];
  const made = await sessions.create([{ instructions, metadata, messages }]);
  const session = await sessions.get(made[0]!.id);
  const turn = await start(session, input, () => true);
  return { ...turn!, parts: deletingUnanswered(turn!.parts, session) };
}

/** Whether this is a turn that ended before the model had answered: what the user said, and perhaps some steps. */
function isUnanswered(said: readonly Message[]): boolean {
  const last = said.at(-1)?.role;
  return said.findLastIndex(({ role }) => role === "user") === 0 && (last === "user" || last === "tool");
}

/** A turn that failed before its model had answered once leaves nothing that is worth a session. */
async function* deletingUnanswered(
  parts: ConversationTurn["parts"],
  session: Session,
): ConversationTurn["parts"] {
  try {
    return yield* parts;
  } catch (error) {
    await session.deleteIdle(() => session.ledger.calls === 0);
    throw error;
  }
}

function isFree(session: Session, { point }: KnownBeginning, instructions: string): boolean {
  return !session.isRunning && session.history.length === point.messages &&
    session.settings.instructions === instructions;
}

function saidBefore({ history }: Session, { messages }: ConversationPoint): readonly Message[] {
  return history.slice(history[0]?.role === "system" ? 1 : 0, messages);
}

async function* eventsAfter({ events }: Session, before: number): AsyncGenerator<LoopEvent> {
  for await (const { event } of events.read(before)) if (event.type !== "message_added") yield event;
}

/** Several messages of the user in a row are one input. */
function joinContents(contents: readonly Content[]): Content {
  if (contents.every((content) => typeof content === "string")) return contents.join("\n\n");
  return contents.flatMap((content): readonly ContentPart[] =>
    typeof content === "string" ? [{ type: "text", text: content }] : content
  );
}
