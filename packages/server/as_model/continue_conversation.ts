import { type Caller, Keys, type Store } from "@tare/session";
import type { Content, ContentPart, Message, ModelSettings, ToolDefinition } from "@tare/messages";
import { openCalls } from "../approvals/approvals.ts";
import { unattendedOf } from "../api/turn_routes.ts";
import type { Heartbeat } from "../http/dispatcher.ts";
import type { AgentSession } from "../sessions/agent_session.ts";
import type { TurnRequest } from "../sessions/session_types.ts";
import { DEFAULT_INSTRUCTIONS, type Sessions } from "../sessions/sessions.ts";
import {
  conversationNames,
  type ConversationPoint,
  type DialogueMessage,
  findBeginning,
  findConversation,
  type KnownBeginning,
  knownConversation,
} from "./known_conversations.ts";
import { visibleTo } from "./stored_responses.ts";
import { type ConversationTurn, turnParts } from "./turn_answer.ts";

export interface ConversationRequest {
  /** The client's instructions, which follow the server's. May be empty. */
  readonly instructions: string;
  /** Messages, the last from the user or the results of the preceding calls. */
  readonly dialogue: readonly DialogueMessage[];
  /** The preceding point. Default: `dialogue` is the whole conversation. */
  readonly after?: ConversationPoint;
  /** Conversations of different users are never mixed. */
  readonly user: string;
  readonly metadata: Readonly<Record<string, string>>;
  /** Output tokens after which no further model call is made. Default: the server's. */
  readonly maxOutputTokens?: number;
  /** Tools that the client runs. Default: none. */
  readonly clientTools?: readonly ToolDefinition[];
  /** Model settings. Default: the provider's. */
  readonly settings?: ModelSettings;
}

export interface AsModelOptions {
  readonly sessions: Sessions;
  readonly store: Store;
  /** Instructions before the client's. Default: `DEFAULT_INSTRUCTIONS`. */
  readonly instructions?: string | undefined;
  readonly heartbeat: Heartbeat;
  readonly onError: (error: unknown) => void;
}

type ContinueOptions = Pick<AsModelOptions, "sessions" | "store" | "instructions"> & {
  /** The caller, who continues only own conversations. Default: the owner. */
  readonly caller?: Caller;
};

/**
 * Starts the next turn of a conversation that a client sends as a whole.
 * - If it is known up to the newest answer and its session hasn't changed since, the turn runs there.
 * - If the client went back, or the session is busy, the turn runs in a new session with the history up to there,
 * tool results included, and unknown messages as sent.
 * - If it was sent before and its turn ended without an answer, that turn is resumed and no tool call repeated. To
 * separate strangers, it must name its user or contain an answer from here.
 * - Calls of the client's tools end a turn; their results continue it.
 * - A new session whose turn fails before the first reply is deleted.
 * @throws {HttpError} 404 if the session of `after` is deleted, 429 above the limit of turns, 507 above that of
 * sessions.
 */
export async function continueConversation(
  request: ConversationRequest,
  options: ContinueOptions,
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
  { sessions, giveBack, caller = Keys.OWNER, ...options }: ContinueOptions & {
    readonly giveBack: () => void;
  },
): Promise<ConversationTurn> {
  const instructions = [options.instructions ?? DEFAULT_INSTRUCTIONS, request.instructions]
    .filter((text) => text !== "").join("\n\n");
  const by = Keys.nameOf(caller);
  const store = visibleTo(options.store, caller);
  const scope = [
    ...(by === undefined ? [] : [`key ${by}`]),
    user,
    instructions,
    ...(after ? Object.values(after).map(String) : []),
  ];
  const names = conversationNames(scope, dialogue);
  const name = names.at(-1) ?? "";
  const pastLength = dialogue.findLastIndex(({ role }) => role === "assistant") + 1;

  const start = async (
    session: AgentSession,
    { input, results, isResumed = false }: Pick<TurnRequest, "input" | "results"> & {
      readonly isResumed?: boolean;
    },
    when: () => boolean,
  ): Promise<ConversationTurn | undefined> => {
    const sessionId = session.id;
    const keep = () =>
      isResumed ? [] : [knownConversation(name, { sessionId, messages: session.history.length })];
    const { maxOutputTokens, clientTools = [], settings } = request;
    const wanted = {
      input,
      results,
      maxOutputTokens,
      clientTools,
      settings,
      unattended: unattendedOf(caller),
    } as const;
    const turn = await session.start({ ...wanted, giveBack, keep }, when);
    if (!turn) return undefined;
    const done = turn.done.then(({ messages }): ConversationPoint => ({ sessionId, messages }));
    return {
      sessionId,
      parts: turnParts(session.events.read(turn.before), {
        clientTools,
        failure: async () => (await turn.done).error,
      }),
      cancel: turn.cancel,
      done,
      async remember({ text, calls }, more = []) {
        const hasContent = text.trim() !== "" || calls.length > 0;
        const reply = { role: "assistant", content: text, tool_calls: calls } as const;
        const replied = conversationNames(scope, [...dialogue, reply]).at(-1)!;
        await store.commit([...more, ...(hasContent ? [knownConversation(replied, await done)] : [])]);
      },
    };
  };

  const known = after ? { point: after, length: 0 } : await findBeginning(store, { dialogue, names });
  const wanted = known || user !== "" ? await findConversation(store, name) : undefined;
  if (wanted) {
    const session = await sessions.get(wanted.sessionId);
    const turn = await start(
      session,
      { isResumed: true },
      () => !session.isRunning && isUnanswered(session.history.slice(wanted.messages)),
    );
    if (turn) return turn;
  }

  const news = dialogue.slice(pastLength);
  const results = news.filter((message) => message.role === "tool");
  const inputs = news.filter((message) => message.role === "user").map(({ content }) => content);
  const next = { results, input: inputs.length > 0 ? joinContents(inputs) : undefined };
  const knownSession = known && await sessions.get(known.point.sessionId);
  const rest = dialogue.slice(known?.length ?? 0, pastLength);
  if (known && knownSession && rest.length === 0) {
    const turn = await start(knownSession, next, () => isFree(knownSession, known, instructions));
    if (turn) return turn;
  }

  // A new session adds its own; the client's are in its instructions.
  const before = (knownSession?.history ?? []).slice(0, known?.point.messages)
    .filter(({ role }) => role !== "system");
  const messages = [...before, ...rest];
  const made = await sessions.create([{ instructions, isInEnvironment: true, metadata, messages }], { by });
  const session = await sessions.get(made[0]!.id);
  const turn = await start(session, next, () => true);
  return { ...turn!, parts: deletingUnanswered(turn!.parts, session) };
}

function isUnanswered(history: readonly Message[]): boolean {
  const before = history.filter(({ role }) => role !== "system");
  const last = before.at(-1)?.role;
  // Results may precede the user's message.
  const first = before.findIndex(({ role }) => role !== "tool");
  const steps = first < 0 ? [] : before.slice(first + 1);
  return (last === "user" || last === "tool") && openCalls(before).length === 0 &&
    steps.every(({ role }) => role !== "user");
}

/** Deletes a new session without a reply. */
async function* deletingUnanswered(
  parts: ConversationTurn["parts"],
  session: AgentSession,
): ConversationTurn["parts"] {
  try {
    return yield* parts;
  } catch (error) {
    await session.deleteIdle(() => session.ledger.calls === 0);
    throw error;
  }
}

function isFree(session: AgentSession, { point }: KnownBeginning, instructions: string): boolean {
  return !session.isRunning && session.history.length === point.messages &&
    session.settings.instructions === instructions;
}

function joinContents(contents: readonly Content[]): Content {
  if (contents.every((content) => typeof content === "string")) return contents.join("\n\n");
  return contents.flatMap((content): readonly ContentPart[] =>
    typeof content === "string" ? [{ type: "text", text: content }] : content
  );
}
