import { type LoopEvent, ModelError } from "@tare/loop";
import type { Content, ContentPart, Message } from "@tare/messages";
import { ConversationHash, type Said } from "./conversation_hash.ts";
import { ConversationIndex, type ConversationPoint, type KnownBeginning } from "./conversation_index.ts";
import { HttpError } from "./http_error.ts";
import type { OpenaiOptions } from "./openai_options.ts";
import { startTurn } from "./run_turn.ts";
import type { Session } from "./session.ts";
import { DEFAULT_INSTRUCTIONS } from "./sessions.ts";
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

/** A turn that runs for a client of the OpenAI-compatible routes. */
export interface ConversationTurn {
  /** The session that it runs in. */
  readonly sessionId: string;
  /** What it says. */
  readonly parts: AsyncGenerator<TurnPart, TurnAnswer>;
  /** Ends it soon. */
  readonly cancel: () => void;
  /** Settles when it has ended; never rejects. */
  readonly done: Promise<void>;
  /** Where its session stands. */
  readonly point: () => ConversationPoint;
  /** Makes the conversation known by its content, this answer included. */
  readonly remember: (answer: string) => Promise<void>;
}

/**
 * Goes on with a conversation that a client sends as a whole: starts its next turn. If its beginning is known, up to the newest
 * answer, and nothing else has happened in its session, the turn runs there, and the session's ledger and view go on.
 * If the client went back to an earlier answer, the turn runs in a new session with the history up to there, tool
 * results included; whatever isn't known is added as the client tells it.
 *
 * @throws {HttpError} 404 if `after` names a session that is gone; 429 if no more turns or sessions are allowed now.
 */
export async function continueConversation(
  request: ConversationRequest,
  options: OpenaiOptions,
): Promise<ConversationTurn> {
  const release = options.slots.take();
  let turn: ConversationTurn | undefined;
  try {
    turn = await findAndBegin(request, options);
    return turn;
  } finally {
    if (turn) turn.done.then(release);
    else release();
  }
}

async function findAndBegin(
  request: ConversationRequest,
  options: OpenaiOptions,
): Promise<ConversationTurn> {
  const { dialogue, after, user, metadata } = request;
  const instructions = [options.instructions ?? DEFAULT_INSTRUCTIONS, request.instructions]
    .filter((text) => text !== "").join("\n\n");
  const index = new ConversationIndex(options.documents);
  const hash = new ConversationHash([user, instructions]);
  const keys = dialogue.map((said) => hash.add(said));
  const pastLength = dialogue.findLastIndex(({ role }) => role === "assistant") + 1;
  const known = after ? { point: after, length: 0 } : await index.find(keys.slice(0, pastLength));
  const knownSession = after
    ? await options.sessions.get(after.sessionId)
    : known && await findSession(options.sessions, known.point.sessionId);

  const input = joinContents(dialogue.slice(pastLength).map(({ content }) => content));
  const begin = (session: Session) => {
    const turn = beginTurn(session, input, request, options);
    const point = () => ({ sessionId: session.id, messages: session.history.length });
    const remember = async (answer: string) => {
      // What came before `after` isn't in the names.
      if (after || answer.trim() === "") return;
      await index.remember(hash.add({ role: "assistant", content: answer }), point());
    };
    return { sessionId: session.id, ...turn, point, remember };
  };

  // Nothing is awaited between looking whether the session is free and starting the turn.
  if (known && knownSession && known.length === pastLength && isFree(knownSession, known, instructions)) {
    return begin(knownSession);
  }
  const past = known && knownSession
    ? [...saidBefore(knownSession, known.point), ...dialogue.slice(known.length, pastLength)]
    : dialogue.slice(0, pastLength);
  const session = await options.sessions.create({ instructions, metadata });
  session.history = [...session.history, ...past];
  return begin(session);
}

async function findSession(sessions: OpenaiOptions["sessions"], id: string): Promise<Session | undefined> {
  try {
    return await sessions.get(id);
  } catch (error) {
    if (error instanceof HttpError && error.status === 404) return undefined;
    throw error;
  }
}

function isFree(session: Session, { point }: KnownBeginning, instructions: string): boolean {
  return session.running === undefined && session.history.length === point.messages &&
    session.settings.instructions === instructions;
}

function saidBefore({ history }: Session, { messages }: ConversationPoint): readonly Message[] {
  return history.slice(history[0]?.role === "system" ? 1 : 0, messages);
}

function beginTurn(
  session: Session,
  input: Content,
  { maxOutputTokens = Infinity }: ConversationRequest,
  { model, countTokens, limits, onError }: OpenaiOptions,
): Pick<ConversationTurn, "parts" | "cancel" | "done"> {
  let failure: unknown;
  const before = session.events.last;
  const maxTokens = Math.min(maxOutputTokens, limits?.maxOutputTokens ?? Infinity);
  startTurn(session, input, {
    model: model(session.settings.model),
    countTokens,
    limits: { ...limits, ...(maxTokens < Infinity && { maxOutputTokens: maxTokens }) },
    onError(error) {
      failure = error;
      onError(error);
    },
  });
  const { running } = session;
  return {
    parts: turnParts(
      eventsAfter(session, before),
      () => failure instanceof ModelError ? failure.retryAfterMs : undefined,
    ),
    cancel: () => running?.cancel(),
    done: running?.done ?? Promise.resolve(),
  };
}

async function* eventsAfter({ events }: Session, before: number): AsyncGenerator<LoopEvent> {
  for await (const { event } of events.read(before)) yield event;
}

/** Several messages of the user in a row are one input. */
function joinContents(contents: readonly Content[]): Content {
  if (contents.every((content) => typeof content === "string")) return contents.join("\n\n");
  return contents.flatMap((content): readonly ContentPart[] =>
    typeof content === "string" ? [{ type: "text", text: content }] : content
  );
}
