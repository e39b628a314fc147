import { ServerSentEventParseStream } from "@std/http";
import { addLedgers, EMPTY_LEDGER, type LoopEvent, type TurnLedger } from "@tare/loop";
import { anthropicModel } from "@tare/loop/anthropic";
import { openaiModel } from "@tare/loop/openai";
import type { Tokenizer } from "@tare/messages/tiktoken";
import type { Price, Profile } from "@tare/planner";
import type { Policy } from "@tare/planner/policies";
import { agentHandler, ALLOW_EVERYTHING } from "@tare/server";
import { rehearsal, simulator } from "@tare/simulator";
import { memoryStore } from "@tare/conversation";
import { workspaceTools } from "@tare/loop/tools";

/** A way to go about a session's prompts. */
export interface Way {
  readonly name: string;
  readonly policy: Policy;
  /** Whether anything may leave the prompts at all. */
  readonly saves: boolean;
}

/** What the demonstration compares. */
export const WAYS: readonly Way[] = [
  { name: "everything resent", policy: "planner", saves: false },
  { name: "fixed triggers", policy: "classic", saves: true },
  { name: "planner", policy: "planner", saves: true },
];

/** What came of a session. */
export interface Played {
  /** The ledger of all its turns. */
  readonly ledger: TurnLedger;
  /** How often its prompt was rewritten. */
  readonly rewrites: number;
  /** Calls of the recall tool. */
  readonly recalls: number;
  /** What the model answered, turn by turn. */
  readonly answers: readonly string[];
  /** Why it stopped before its end: its prompt outgrew the model's window. */
  readonly stopped?: string;
}

/** What a session is played with. */
export interface PlayOptions {
  readonly workspace: string;
  readonly questions: readonly string[];
  /** The cache rules of the simulated provider. */
  readonly profile: Profile;
  /** What its tokens cost in money. Default: nobody knows. */
  readonly price?: Price | undefined;
  readonly tokenizer: Tokenizer;
  /** Told of each event, and of the ledger up to the last turn's end. */
  readonly onEvent?: (event: LoopEvent) => void;
}

/** The model's window, in tokens. */
const WINDOW_TOKENS = 200_000;
/** How long the model takes for a reply, and the person for the next question, in milliseconds of the session's own clock. */
const REPLY_MS = 5_000;
const QUESTION_MS = 60_000;

/**
 * Plays a session: the agent server with its real loop and tools, and behind it the rehearsal model on a simulated
 * provider. Its clock is its own, so that the same questions always come to the same figures.
 *
 * @throws {Error} if a turn ends otherwise than by an answer or a window that is full.
 */
export async function playDemo(
  { policy, saves }: Way,
  { workspace, questions, profile, price, tokenizer, onEvent = () => {} }: PlayOptions,
): Promise<Played> {
  let nowMs = Date.UTC(2026, 0, 1);
  const now = () => nowMs;
  const provider = simulator({ model: rehearsal(), profile, tokenizer, windowTokens: WINDOW_TOKENS, now });
  const access = {
    model: "rehearsal",
    fetch: (input: RequestInfo | URL, init?: RequestInit) => {
      nowMs += REPLY_MS;
      return provider.fetch(new Request(input, init));
    },
  };
  let failure: unknown;
  const agent = agentHandler({
    defaultModel: "rehearsal",
    model: () =>
      profile.writes // Only Messages are asked how long to cache.
        ? anthropicModel({ ...access, baseURL: "http://provider", cacheTtlMs: profile.ttlMs })
        : openaiModel({ ...access, baseURL: "http://provider/v1" }),
    profile,
    price: () => price,
    windowTokens: WINDOW_TOKENS,
    policy,
    mechanisms: { context: saves, prune: saves, schemas: saves, truncate: saves },
    approvals: { rules: ALLOW_EVERYTHING },
    tools: workspaceTools({ workspace }),
    store: memoryStore(),
    countTokens: () => Promise.resolve(tokenizer.count),
    limits: { maxSteps: 200 },
    onError: (error) => failure = error,
    now,
  });
  const post = async (path: string, body: unknown) =>
    await agent.fetch(
      new Request(`http://localhost${path}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify(body),
      }),
    );
  const { id } = await (await post("/v1/sessions", {})).json();
  let ledger: TurnLedger = EMPTY_LEDGER;
  let rewrites = 0;
  let recalls = 0;
  const answers: string[] = [];
  let stopped: string | undefined;
  for (const input of questions) {
    if (stopped !== undefined) break;
    nowMs += QUESTION_MS;
    const { body } = await post(`/v1/sessions/${id}/turns`, { input });
    for await (const { data = "" } of body!.pipeThrough(new ServerSentEventParseStream())) {
      const event: LoopEvent = JSON.parse(data);
      if (event.type === "context_rewritten") rewrites += 1;
      if (event.type === "tool_call" && event.name === "recall") recalls += 1;
      if (event.type === "turn_end") {
        ledger = addLedgers(ledger, event.ledger);
        if (event.reason === "completed") answers.push(event.text);
        else if (event.code === "prompt_too_long") stopped = event.message ?? event.code;
        else throw new Error(`Cannot play the session: ${event.message}`, { cause: failure });
      }
      onEvent(event);
    }
  }
  await agent.close();
  return { ledger, rewrites, recalls, answers, ...(stopped !== undefined && { stopped }) };
}
