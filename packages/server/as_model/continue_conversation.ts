import { type Asker, Keys, type Store } from "@tare/session";
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
  findBeginning,
  findConversation,
  type KnownBeginning,
  knownConversation,
  type SaidMessage,
} from "./known_conversations.ts";
import { visibleTo } from "./stored_responses.ts";
import { type ConversationTurn, turnParts } from "./turn_answer.ts";

/** A request to go on with a conversation. */
export interface ConversationRequest {
  /** What the client wants the agent to heed; it follows the server's own instructions. May be empty. */
  readonly instructions: string;
  /** What was said, at its end a message of the user or the results of the calls before. */
  readonly dialogue: readonly SaidMessage[];
  /** Where the conversation stood before `dialogue`. Default: `dialogue` is the whole conversation. */
  readonly after?: ConversationPoint;
  /** Who asks: conversations of different users are never mixed. */
  readonly user: string;
  /** Kept with a new session. */
  readonly metadata: Readonly<Record<string, string>>;
  /** Output tokens after which the model isn't called again. Default: the server's. */
  readonly maxOutputTokens?: number;
  /** Tools that the client runs. Default: none. */
  readonly clientTools?: readonly ToolDefinition[];
  /** How the model shall write. Default: as the provider likes. */
  readonly settings?: ModelSettings;
}

/** What the OpenAI-compatible routes need. */
export interface AsModelOptions {
  readonly sessions: Sessions;
  /** Keeps where known conversations stand. */
  readonly store: Store;
  /** What every agent is told first; the client's instructions follow. Default: `DEFAULT_INSTRUCTIONS`. */
  readonly instructions?: string | undefined;
  readonly heartbeat: Heartbeat;
  readonly onError: (error: unknown) => void;
}

/** Where conversations go on. */
type GoingOn = Pick<AsModelOptions, "sessions" | "store" | "instructions"> & {
  /** Who asks: what others have said isn't known to him. Default: the owner. */
  readonly asker?: Asker;
};

/**
 * Goes on with a conversation that a client sends as a whole: starts its next turn.
 *
 * - If its beginning is known, up to the newest answer, and nothing else has happened in its session since, the turn
 *   runs there, and the session's ledger and view go on.
 * - If the client went back to an earlier answer, or its session is busy, the turn runs in a new session with the
 *   history up to there, tool results included. Whatever isn't known is added as the client tells it.
 * - If it was sent before and its turn ended without an answer, that turn goes on: no tool call is made twice. So that
 *   nobody gets what a stranger asked for in the same words, it must name its user or hold an answer that was given here.
 * - Calls of the client's tools end a turn. Their results, right after them, let it go on.
 * - A new session whose turn fails before the model has answered once is deleted again.
 *
 * @throws {HttpError} 404 if `after` names a session that is gone; 429 if no more turns are allowed now; 507 if no more
 * sessions may be kept.
 */
export async function continueConversation(
  request: ConversationRequest,
  options: GoingOn,
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
  { sessions, giveBack, asker = Keys.OWNER, ...options }: GoingOn & { readonly giveBack: () => void },
): Promise<ConversationTurn> {
  const instructions = [options.instructions ?? DEFAULT_INSTRUCTIONS, request.instructions]
    .filter((text) => text !== "").join("\n\n");
  const by = Keys.nameOf(asker);
  const store = visibleTo(options.store, asker);
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
    const asked = {
      input,
      results,
      maxOutputTokens,
      clientTools,
      settings,
      unattended: unattendedOf(asker),
    } as const;
    const turn = await session.start({ ...asked, giveBack, keep }, when);
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
        const isSaid = text.trim() !== "" || calls.length > 0;
        const reply = { role: "assistant", content: text, tool_calls: calls } as const;
        const replied = conversationNames(scope, [...dialogue, reply]).at(-1)!;
        await store.commit([...more, ...(isSaid ? [knownConversation(replied, await done)] : [])]);
      },
    };
  };

  const known = after ? { point: after, length: 0 } : await findBeginning(store, { dialogue, names });
  const asked = known || user !== "" ? await findConversation(store, name) : undefined;
  if (asked) {
    const session = await sessions.get(asked.sessionId);
    const turn = await start(
      session,
      { isResumed: true },
      () => !session.isRunning && isUnanswered(session.history.slice(asked.messages)),
    );
    if (turn) return turn;
  }

  const news = dialogue.slice(pastLength);
  const results = news.filter((said) => said.role === "tool");
  const inputs = news.filter((said) => said.role === "user").map(({ content }) => content);
  const next = { results, input: inputs.length > 0 ? joinContents(inputs) : undefined };
  const knownSession = known && await sessions.get(known.point.sessionId);
  const rest = dialogue.slice(known?.length ?? 0, pastLength);
  if (known && knownSession && rest.length === 0) {
    const turn = await start(knownSession, next, () => isFree(knownSession, known, instructions));
    if (turn) return turn;
  }

  // The other session tells of its tools and its place itself; what the client says as the system is among its instructions.
  const said = (knownSession?.history ?? []).slice(0, known?.point.messages)
    .filter(({ role }) => role !== "system");
  const messages = [...said, ...rest];
  const made = await sessions.create([{ instructions, isAtWorkplace: true, metadata, messages }], { by });
  const session = await sessions.get(made[0]!.id);
  const turn = await start(session, next, () => true);
  return { ...turn!, parts: deletingUnanswered(turn!.parts, session) };
}

/** Whether this is a turn that ended before the model had answered: what began it, and perhaps some steps. */
function isUnanswered(history: readonly Message[]): boolean {
  // The server may have told the model of its tools and its place.
  const said = history.filter(({ role }) => role !== "system");
  const last = said.at(-1)?.role;
  // Results, if it goes on with them, and what the user said.
  const first = said.findIndex(({ role }) => role !== "tool");
  const steps = first < 0 ? [] : said.slice(first + 1);
  return (last === "user" || last === "tool") && openCalls(said).length === 0 &&
    steps.every(({ role }) => role !== "user");
}

/** A turn that failed before its model had answered once leaves nothing that is worth a session. */
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

/** Several messages of the user in a row are one input. */
function joinContents(contents: readonly Content[]): Content {
  if (contents.every((content) => typeof content === "string")) return contents.join("\n\n");
  return contents.flatMap((content): readonly ContentPart[] =>
    typeof content === "string" ? [{ type: "text", text: content }] : content
  );
}
