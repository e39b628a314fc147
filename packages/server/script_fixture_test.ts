/**
 * Generated turns: a scripted model that calls tools, and users who speak and cancel in their middle. Holds no tests.
 *
 * @module
 */
import { type Model, ModelError } from "@tare/loop";
import { estimateTokens, type FunctionToolCall, type Message, type Tool } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import type { SessionOptions } from "@tare/server";
import fc from "fast-check";
import { startTurn } from "./sessions/run_turn.ts";
import type { Session } from "./sessions/session.ts";
import { Sessions } from "./sessions/sessions.ts";

/** A tool call, and how it comes out. */
export interface ScriptCall {
  readonly tool: "read" | "act";
  readonly outcome: "text" | "error" | "throws" | "cancels";
  /** Characters of the result. */
  readonly size: number;
}

/** What a model does when it is called, in this order. */
export interface ScriptStep {
  readonly steer: readonly string[];
  readonly cancels: boolean;
  readonly fails: boolean;
  readonly calls: readonly ScriptCall[];
  readonly finish: "stop" | "length";
}

/** A turn: what the model does call by call; then it answers. */
export type ScriptTurn = readonly ScriptStep[];

function rarely<T>(usual: T, rare: T): fc.Arbitrary<T> {
  return fc.nat(14).map((number) => number === 0 ? rare : usual);
}

const call: fc.Arbitrary<ScriptCall> = fc.record({
  tool: fc.constantFrom("read", "act"),
  outcome: fc.oneof(
    { weight: 10, arbitrary: fc.constant("text" as const) },
    { weight: 2, arbitrary: fc.constantFrom("error" as const, "throws" as const) },
    { weight: 1, arbitrary: fc.constant("cancels" as const) },
  ),
  size: fc.constantFrom(0, 10, 6_000, 12_000, 40_000),
});

const step: fc.Arbitrary<ScriptStep> = fc.record({
  steer: fc.oneof({ weight: 3, arbitrary: fc.constant([]) }, fc.array(fc.string(), { maxLength: 2 })),
  cancels: rarely(false, true),
  fails: rarely(false, true),
  calls: fc.oneof({ weight: 5, arbitrary: fc.array(call, { minLength: 1, maxLength: 3 }) }, fc.constant([])),
  finish: rarely("stop", "length"),
});

/** One to four turns of up to five scripted steps. */
export const scriptTurns: fc.Arbitrary<readonly ScriptTurn[]> = fc.array(fc.array(step, { maxLength: 5 }), {
  minLength: 1,
  maxLength: 4,
});

/** Plays scripted turns. */
export class Player {
  /** The body of each request to the model. */
  readonly requests: string[] = [];
  /** What the user said in the middle of turns, and by which write it was accepted. */
  readonly accepted: { readonly said: string; readonly writes: number }[] = [];
  /** What was told to `onError`. */
  readonly errors: unknown[] = [];
  /** The tools that it calls. */
  readonly tools: readonly Tool[];
  #session: Session | undefined;
  #turn = 0;
  readonly #writes: () => number;

  /** `writes` says how many writes there were so far. */
  constructor(writes: () => number = () => 0) {
    this.#writes = writes;
    this.tools = [this.#tool("read"), this.#tool("act")];
  }

  /** Plays one turn to its end. Without an input it continues the one before. */
  async play(session: Session, input: string | undefined, steps: ScriptTurn = []): Promise<void> {
    this.#session = session;
    this.#turn += 1;
    startTurn(session, input, {
      model: this.#model(steps),
      countTokens: () => Promise.resolve(estimateTokens),
      onError: (error) => this.errors.push(error),
    });
    await session.running?.done;
  }

  #model(steps: ScriptTurn): Model {
    const turn = this.#turn;
    let next = 0;
    return async function* (this: Player, { messages, tools }: Parameters<Model>[0]): ReturnType<Model> {
      const body = JSON.stringify({ messages, tools });
      this.requests.push(body);
      const index = next++;
      const { steer, cancels, fails, calls, finish } = steps[index] ?? ANSWER;
      for (const said of steer) {
        this.#session?.running?.steer(said);
        this.accepted.push({ said, writes: this.#writes() });
      }
      if (cancels) this.#session?.running?.cancel();
      if (fails) throw new ModelError("provider_error", "The provider failed.");
      yield { type: "text_delta" as const, text: `${turn}.` };
      const made = calls.map(({ tool, ...args }, at): FunctionToolCall => ({
        id: `${turn}.${index}.${at}`,
        type: "function",
        function: { name: tool, arguments: JSON.stringify(args) },
      }));
      yield {
        type: "completed" as const,
        message: {
          role: "assistant" as const,
          content: `${turn}.${index}`,
          ...(made.length > 0 && { tool_calls: made }),
        },
        finishReason: finish === "length" ? finish : made.length > 0 ? "tool_calls" as const : finish,
        usage: {
          promptTokens: Math.ceil(body.length / 4),
          cachedTokens: Math.ceil(body.length / 8),
          outputTokens: 3,
        },
      };
    }.bind(this);
  }

  #tool(name: ScriptCall["tool"]): Tool {
    return {
      definition: {
        type: "function",
        function: { name, description: "Does as it is told. ".repeat(20), parameters: { type: "object" } },
      },
      ...(name === "read" && { stance: "rederivable" }),
      run: ({ outcome, size }) => {
        if (outcome === "throws") throw new Error("It fell over.");
        if (outcome === "cancels") this.#session?.running?.cancel();
        return { content: `${name} `.repeat(Number(size) / 5), error: outcome === "error" };
      },
    };
  }
}

const ANSWER: ScriptStep = { steer: [], cancels: false, fails: false, calls: [], finish: "stop" };

/** Sessions over a store, in a window so small that prompts are rewritten. */
export function scriptedSessions(
  { store, policy = "planner", tools = new Player().tools, now = () => 0 }:
    & Pick<SessionOptions, "store">
    & Partial<SessionOptions>,
): Sessions {
  return new Sessions({
    store,
    policy,
    tools,
    now,
    defaultModel: "m",
    instructions: "Be brief.",
    countTokens: () => Promise.resolve(estimateTokens),
    profile: profileNamed("anthropic-5m"),
    windowTokens: 12_000,
    mechanisms: { context: true, prune: true, schemas: true, truncate: true },
  });
}

/** What a session is and would send, as text that can be compared. */
export function snapshot({ history, ledger, turns, lastEvent, context }: Session): string {
  return JSON.stringify({ history, ledger, turns, lastEvent, state: context.state });
}

/** The calls without exactly one answer right behind their reply, and the answers without a call. */
export function unpaired(messages: readonly Message[]): string[] {
  const faults: string[] = [];
  let open: string[] = [];
  for (const message of [...messages, undefined]) {
    if (message?.role === "tool") {
      const at = open.indexOf(message.tool_call_id);
      if (at < 0) faults.push(`answer ${message.tool_call_id}`);
      else open.splice(at, 1);
      continue;
    }
    faults.push(...open.map((id) => `call ${id}`));
    open = message?.role === "assistant" ? (message.tool_calls ?? []).map(({ id }) => id) : [];
  }
  return faults;
}
