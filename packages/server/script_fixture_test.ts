/**
 * Generated turns: a scripted model that calls tools, and users who steer and cancel. Contains no tests.
 *
 * @module
 */
import type { Store } from "@tare/session";
import { ModelError } from "@tare/loop";
import { estimateTokens, type FunctionToolCall, type Message, type Model, type Tool } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import fc from "../../tests/cases.ts";
import { type FlatOptions, grouped } from "./options_fixture_test.ts";
import type { AgentSession } from "./sessions/agent_session.ts";
import type { SessionOptions } from "./sessions/session_options.ts";
import type { RunningTurn } from "./sessions/session_types.ts";
import type { CreateSession } from "./sessions/session_settings.ts";
import { ALLOW_EVERYTHING } from "./approvals/rules.ts";
import { Sessions } from "./sessions/sessions.ts";

/** A tool call and its outcome. */
export interface ScriptCall {
  readonly tool: "read" | "act";
  readonly outcome: "text" | "error" | "throws" | "cancels";
  readonly size: number;
}

/** Actions of a model call, in this order. */
export interface ScriptStep {
  readonly steer: readonly string[];
  readonly cancels: boolean;
  readonly fails: boolean;
  readonly calls: readonly ScriptCall[];
  readonly finish: "stop" | "length";
}

/** A turn: the steps of the model; then it answers. */
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
  readonly requests: string[] = [];
  /** Steering inputs, and the number of writes when each was accepted. */
  readonly accepted: { readonly text: string; readonly writes: number }[] = [];
  readonly errors: unknown[] = [];
  readonly tools: readonly Tool[];
  #session: AgentSession | undefined;
  #turn = 0;
  readonly #writes: () => number;

  constructor(writes: () => number = () => 0) {
    this.#writes = writes;
    this.tools = [this.#tool("read"), this.#tool("act")];
  }

  /** Plays one turn to its end. Without an input it continues the last one. */
  async play(session: AgentSession, input: string | undefined, steps: ScriptTurn = []): Promise<void> {
    await (await this.start(session, input, steps)).done;
  }

  start(session: AgentSession, input: string | undefined, steps: ScriptTurn = []): Promise<RunningTurn> {
    this.#session = session;
    this.takeOver(steps);
    return session.start({ input });
  }

  takeOver(steps: ScriptTurn = []): void {
    this.#turn += 1;
    playing = { model: this.#model(steps), onError: (error) => this.errors.push(error) };
  }

  #model(steps: ScriptTurn): Model {
    const turn = this.#turn;
    let next = 0;
    return async function* (this: Player, { messages, tools }: Parameters<Model>[0]): ReturnType<Model> {
      const body = JSON.stringify({ messages, tools });
      this.requests.push(body);
      const index = next++;
      const { steer, cancels, fails, calls, finish } = steps[index] ?? ANSWER;
      for (const text of steer) {
        await this.#session?.steerOrStart({ input: text });
        this.accepted.push({ text, writes: this.#writes() });
      }
      if (cancels) this.#session?.cancel();
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
        if (outcome === "cancels") this.#session?.cancel();
        return { content: `${name} `.repeat(Number(size) / 5), error: outcome === "error" };
      },
    };
  }
}

const ANSWER: ScriptStep = { steer: [], cancels: false, fails: false, calls: [], finish: "stop" };

let playing: { readonly model: Model; readonly onError: (error: unknown) => void } | undefined;

const playersModel: Model = (request) => {
  if (!playing || /[Ss]ummarize (it|the older part)/.test(String(request.messages.at(-1)?.content))) {
    throw new Error("No summary.");
  }
  return playing.model(request);
};

export interface ScriptedOptions extends Omit<FlatOptions, "store">, Pick<SessionOptions, "store"> {
  readonly now?: Store["now"];
}

/** Returns sessions over a store, with a window so small that prompts are rewritten. */
export function scriptedSessions({ store, now = () => 0, ...options }: ScriptedOptions): Sessions {
  const all = grouped({
    model: () => playersModel,
    tools: new Player().tools,
    approvals: { rules: ALLOW_EVERYTHING },
    store: { ...store, now },
    defaultModel: "m",
    instructions: "Be brief.",
    countTokens: () => Promise.resolve(estimateTokens),
    profile: profileNamed("anthropic-5m"),
    windowTokens: 12_000,
    onError: (error: unknown) => playing?.onError(error),
    ...options,
  });
  return new Sessions(all as SessionOptions);
}

/** Creates a session. */
export async function makeSession(sessions: Sessions, settings: CreateSession = {}): Promise<AgentSession> {
  const [made] = await sessions.create([settings]);
  return await sessions.get(made!.id);
}

/** Returns the state and next request of a session, as text that can be compared. */
export function snapshot({ history, totals: { ledger, turns }, lastEvent, prompt }: AgentSession): string {
  return JSON.stringify({ history, ledger, turns, lastEvent, state: prompt.state, pins: prompt.pins });
}

/** Returns the calls without exactly one result immediately after their reply, and results without a call. */
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
