import { type LoopEvent, ModelError } from "@tare/loop";
import type { Content, ContentPart, Message } from "@tare/messages";
import { ConversationHash, type Said } from "./conversation_hash.ts";
import { ConversationIndex, type ConversationPoint, type KnownBeginning } from "./conversation_index.ts";
import type { OpenaiOptions } from "./openai_options.ts";
import { startTurn } from "../sessions/run_turn.ts";
import { seedHistory } from "../sessions/seed_history.ts";
import type { Session } from "../sessions/session.ts";
import { DEFAULT_INSTRUCTIONS } from "../sessions/sessions.ts";
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
  readonly remember: (answer: string) => void;
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
  const { sessions } = options;
  const instructions = [options.instructions ?? DEFAULT_INSTRUCTIONS, request.instructions]
    .filter((text) => text !== "").join("\n\n");
  const index = new ConversationIndex(options.documents);
  const hash = new ConversationHash([user, instructions, ...(after ? Object.values(after).map(String) : [])]);
  const keys = dialogue.map((said) => hash.add(said));
  const pastLength = dialogue.findLastIndex(({ role }) => role === "assistant") + 1;

  const begin = (session: Session, input?: Content): ConversationTurn => {
    const point = () => ({ sessionId: session.id, messages: session.history.length });
    if (input !== undefined) index.remember(keys.at(-1) ?? "", point());
    return {
      sessionId: session.id,
      ...beginTurn(session, input, { request, options }),
      point,
      remember(answer) {
        if (answer.trim() !== "") index.remember(hash.add({ role: "assistant", content: answer }), point());
      },
    };
  };
  // In all that follows, nothing is awaited between looking whether a session is free and starting a turn in it.

  const asked = index.find(keys.slice(-1))?.point;
  const askedSession = asked && await sessions.get(asked.sessionId);
  if (askedSession && !askedSession.running && isUnanswered(askedSession.history.slice(asked.messages))) {
    return begin(askedSession);
  }

  const input = joinContents(dialogue.slice(pastLength).map(({ content }) => content));
  const known = after ? { point: after, length: 0 } : index.find(keys.slice(0, pastLength));
  const knownSession = known && await sessions.get(known.point.sessionId);
  const rest = dialogue.slice(known?.length ?? 0, pastLength);
  if (known && knownSession && rest.length === 0 && isFree(knownSession, known, instructions)) {
    return begin(knownSession, input);
  }

  const session = await sessions.create({ instructions, metadata });
  seedHistory(session, [...(known && knownSession ? saidBefore(knownSession, known.point) : []), ...rest]);
  const turn = begin(session, input);
  return { ...turn, parts: deletingUnanswered(turn.parts, session, options) };
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
  { sessions }: OpenaiOptions,
): ConversationTurn["parts"] {
  try {
    return yield* parts;
  } catch (error) {
    if (session.ledger.calls === 0) await sessions.delete(session);
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
  input: Content | undefined,
  { request: { maxOutputTokens = Infinity }, options }: {
    readonly request: ConversationRequest;
    readonly options: OpenaiOptions;
  },
): Pick<ConversationTurn, "parts" | "cancel" | "done"> {
  const { model, countTokens, limits, onError } = options;
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
  for await (const { event } of events.read(before)) if (event.type !== "message_added") yield event;
}

/** Several messages of the user in a row are one input. */
function joinContents(contents: readonly Content[]): Content {
  if (contents.every((content) => typeof content === "string")) return contents.join("\n\n");
  return contents.flatMap((content): readonly ContentPart[] =>
    typeof content === "string" ? [{ type: "text", text: content }] : content
  );
}
