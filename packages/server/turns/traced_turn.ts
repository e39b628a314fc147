import type { RunOptions, TurnEnd } from "@tare/loop";
import type { Model, ModelEvent, ModelRequest, Tool } from "@tare/messages";
import type { SessionView } from "@tare/planner";
import { providerOf } from "@tare/planner/internal";
import { RECALL_TOOL } from "@tare/prune";
import { type Chat, type Operation, Telemetry } from "@tare/session/telemetry";
import type { SessionEnvironment, TurnPrompt } from "../sessions/session_types.ts";

interface ModelFacts {
  readonly provider: string;
  readonly model: string;
  readonly address?: URL;
}

export function modelFacts(environment: SessionEnvironment, model: string): ModelFacts {
  const address = environment.models.address?.(model);
  const provider = providerOf(environment.ratesOf(model).profile);
  return { provider, model, ...(address !== undefined && { address: new URL(address) }) };
}

interface TracedTurnOptions extends ModelFacts {
  readonly telemetry: Telemetry;
  readonly agent: string;
  readonly conversation: string;
}

type Traced = Pick<RunOptions, "model" | "settings"> & { readonly prompt: TurnPrompt };

const FAILED: readonly string[] = ["cancelled", "stalled", "model_error", "internal_error"];

/** Plays a turn with telemetry: a span for the turn, with one for each model call and each tool that runs. */
export async function tracedTurn<
  Options extends Traced,
  Played extends { readonly result: Pick<TurnEnd, "reason" | "code"> },
>(
  options: Options,
  play: (options: Options) => Promise<Played>,
  about: TracedTurnOptions,
): Promise<Played> {
  const turn = about.telemetry.agent(about);
  const calls = new TracedCalls(turn, about);
  const { model, prompt } = options;
  const traced = { ...options, model: calls.model(model), prompt: calls.prompt(prompt) };
  let failure: string | undefined = "internal_error";
  try {
    const played = await turn.within(() => play(traced));
    const { reason, code } = played.result;
    turn.set({ "tare.turn.end_reason": reason });
    failure = FAILED.includes(reason) ? code ?? reason : undefined;
    return played;
  } finally {
    calls.end(failure);
    turn.end(failure);
  }
}

export function tracedModel(model: Model, about: Omit<TracedTurnOptions, "agent">): Model {
  return (request) => tracedReply(model, request, beginChat(request, about), true);
}

class TracedCalls {
  readonly #turn: Operation;
  readonly #about: TracedTurnOptions;
  #view: Pick<SessionView, "rewrites" | "saved"> | undefined;
  #chat: Chat | undefined;

  constructor(turn: Operation, about: TracedTurnOptions) {
    this.#turn = turn;
    this.#about = about;
  }

  end(errorType: string | undefined): void {
    this.#chat?.end(errorType);
  }

  model(model: Model): Model {
    return (request) => {
      this.#chat = beginChat(request, { ...this.#about, parent: this.#turn });
      return tracedReply(model, request, this.#chat, false);
    };
  }

  prompt(prompt: TurnPrompt): TurnPrompt {
    return {
      get isStored() {
        return prompt.isStored;
      },
      offerTools: (tools, mayTell) => {
        const { listed, unlisted, ...offer } = prompt.offerTools(tools, mayTell);
        const traced = (tool: Tool) => this.#tool(tool);
        return { ...offer, listed: listed.map(traced), unlisted: unlisted.map(traced) };
      },
      view: async (history, call) => {
        return this.#view = await prompt.view(history, call);
      },
      sent: (usage, view) => {
        const entry = prompt.sent(usage, view);
        if (usage) this.#chat?.took(usage);
        if (this.#view) this.#chat?.planned({ ...this.#view, entry });
        this.#chat?.end();
        return entry;
      },
      cacheKey: (messages) => prompt.cacheKey(messages),
      rejected: (words, view) => prompt.rejected(words, view),
    };
  }

  #tool(tool: Tool): Tool {
    const run: Tool["run"] = async (args, context) => {
      const { telemetry, agent } = this.#about;
      const { definition: { function: { name } } } = tool;
      if (name === RECALL_TOOL.function.name) telemetry.recalled(1);
      const { signal, callId } = context;
      const called = telemetry.tool({ name, callId, agent, args, parent: this.#turn });
      // The caller doesn't wait for a tool that continues after that.
      signal.addEventListener("abort", () => called.end(Telemetry.errorTypeOf(signal.reason)), {
        once: true,
      });
      let failure: string | undefined = "tool_error";
      try {
        const output = await called.within(() => tool.run(args, context));
        const result = typeof output === "string" ? { content: output, error: false } : output;
        if (!result.error) failure = undefined;
        if (telemetry.captureContent) {
          called.set({ "gen_ai.tool.call.result": JSON.stringify(result.content) });
        }
        return output;
      } catch (error) {
        failure = Telemetry.errorTypeOf(error);
        throw error;
      } finally {
        called.end(failure);
      }
    };
    const { resolve } = tool;
    // The tool's other properties are inherited.
    return Object.create(tool, {
      run: { value: run },
      ...(resolve && {
        resolve: {
          value: (args: Parameters<typeof resolve>[0]) => {
            const resolved = tool.resolve!(args);
            return "problem" in resolved ? resolved : { ...resolved, tool: this.#tool(resolved.tool) };
          },
        },
      }),
    });
  }
}

function beginChat(
  request: ModelRequest,
  { telemetry, provider, model, address, conversation, parent }: Omit<TracedTurnOptions, "agent"> & {
    readonly parent?: Operation;
  },
): Chat {
  const { settings } = request;
  const about = { provider, model, address, conversation, stream: true, settings, parent };
  return telemetry.chat({ ...about, prompt: request });
}

/** Yields a model's reply. If `ends`, its completion ends the call; else the loop ends it. */
async function* tracedReply(
  model: Model,
  request: ModelRequest,
  chat: Chat,
  ends: boolean,
): AsyncGenerator<ModelEvent> {
  const { signal } = request;
  const stopped = () => chat.end(Telemetry.errorTypeOf(signal.reason));
  signal.addEventListener("abort", stopped);
  const events = chat.within(() => model(request))[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value: event } = await chat.within(() => events.next());
      if (done) return;
      chat.begun();
      if (event.type === "completed") {
        const { message, finishReason, usage } = event;
        chat.replied({ messages: () => [message], finishReason });
        if (ends) {
          if (usage) chat.took(usage);
          chat.end();
        }
      }
      yield event;
    }
  } catch (error) {
    chat.end(Telemetry.errorTypeOf(error));
    throw error;
  } finally {
    signal.removeEventListener("abort", stopped);
    await events.return?.();
  }
}
