import {
  AfterInvocationEvent,
  AfterModelCallEvent,
  Agent,
  type BaseModelConfig,
  BeforeModelCallEvent,
  ContextWindowOverflowError,
  type LocalAgent,
  type Message as StrandsMessage,
  MessageAddedEvent,
  Model,
  type ModelStreamEvent,
  SlidingWindowConversationManager,
  type StreamOptions,
  SummarizingConversationManager,
} from "@strands-agents/sdk";
import { countRequestTokens, type Message } from "@tare/messages";
import { RECALL_TOOL } from "@tare/prune";
import type { MakePolicy } from "@tare/simulator/economy";
import { fromStrands, textOf, toStrands } from "./strands_messages.ts";
import { Summariser, type SummaryCall } from "./summariser.ts";

/** Strands' default: the newest 40 messages after each turn, less where the window overflows. */
export function strandsWindow(): MakePolicy {
  return managed(() => new SlidingWindowConversationManager(), "cached");
}

/** A summary of the oldest three tenths of the messages where the window overflows. */
export function strandsSummaries(summaryCall: SummaryCall): MakePolicy {
  return managed(() => new SummarizingConversationManager(), summaryCall);
}

/** `contextManager: "auto"`: large results are cut short as they come, and at 0.85 of the window all gets a summary. */
export function strandsAuto(summaryCall: SummaryCall): MakePolicy {
  return managed(
    (model) => new Agent({ model, contextManager: "auto", printer: false }).contextManager,
    summaryCall,
  );
}

/** A part of an agent that hooks into what happens there. */
interface Manager {
  initAgent(agent: LocalAgent): void | Promise<void>;
}

/** A call that doesn't fit after so many reductions is made all the same; in an agent it would fail. */
const MOST_TRIES = 20;

type Listener = (event: unknown) => void | Promise<void>;

/** The name of the tool by which Strands' own model gets back what was cut; its results are never cut again. */
const RETRIEVAL = "retrieve_context";

/** Lets a manager do to the messages of an agent what it does there, at the events at which an agent would tell it. */
function managed(make: (model: Model) => Manager | undefined, summaryCall: SummaryCall): MakePolicy {
  return async ({ windowTokens, countTokens }) => {
    const summariser = new Summariser(summaryCall, countTokens);
    const model = new SummaryModel(summariser, windowTokens);
    const listeners = new Map<unknown, Listener[]>();
    const state: Pick<LocalAgent, "messages"> & Record<string, unknown> = {
      messages: [],
      model,
      id: "agent",
      sessionId: "session",
      addHook: (event: unknown, listener: Listener) =>
        listeners.set(event, [...listeners.get(event) ?? [], listener]),
    };
    const agent = state as unknown as LocalAgent;
    const tell = async <T extends object>(event: T): Promise<T> => {
      for (const listener of listeners.get(event.constructor) ?? []) await listener(event);
      return event;
    };
    await make(model)?.initAgent(agent);
    const context = { agent, model, invocationState: {} };
    let taken = 0;
    let restTokens = 0;
    let counted = 0;
    return {
      async view({ messages, tools }) {
        const first = Math.max(
          0,
          messages.findIndex(({ role }) => role !== "system" && role !== "developer"),
        );
        if (taken > 0 && messages.at(-1)?.role !== "tool") await tell(new AfterInvocationEvent(context));
        for (const message of toStrands(messages.slice(Math.max(first, taken)), theirName)) {
          state.messages.push(message);
          await tell(new MessageAddedEvent({ ...context, message }));
        }
        taken = messages.length;
        const show = (): Message[] => {
          const view = [...messages.slice(0, first), ...fromStrands(state.messages)];
          counted = countRequestTokens({ messages: view, tools }, countTokens);
          return view;
        };
        show();
        await tell(new BeforeModelCallEvent({ ...context, projectedInputTokens: counted + restTokens }));
        let view = show();
        for (let tries = 0; tries < MOST_TRIES && counted + restTokens > windowTokens; tries++) {
          const error = new ContextWindowOverflowError("prompt is too long");
          const { retry } = await tell(new AfterModelCallEvent({ ...context, attemptCount: 1, error }));
          if (!retry) break;
          view = show();
        }
        return summariser.charge({ messages: view, tools });
      },
      sent({ promptTokens }) {
        restTokens = promptTokens - counted;
      },
    };
  };
}

function theirName(name: string): string {
  return name === RECALL_TOOL.function.name ? RETRIEVAL : name;
}

/** Answers each request for a summary, and counts tokens as every Strands model does by default. */
class SummaryModel extends Model {
  readonly #summariser: Summariser;
  readonly #config: BaseModelConfig;

  constructor(summariser: Summariser, contextWindowLimit: number) {
    super();
    this.#summariser = summariser;
    this.#config = { modelId: "none", contextWindowLimit };
  }

  getConfig(): BaseModelConfig {
    return this.#config;
  }

  updateConfig(): void {}

  async *stream(
    messages: StrandsMessage[],
    { systemPrompt }: StreamOptions = {},
  ): AsyncGenerator<ModelStreamEvent> {
    const text = this.#summariser.answer([
      { role: "system", content: String(systemPrompt ?? "") },
      ...messages.map(({ role, content }): Message => ({ role, content: content.map(textOf).join("\n") })),
    ]);
    yield { type: "modelMessageStartEvent", role: "assistant" };
    yield { type: "modelContentBlockStartEvent" };
    yield await Promise.resolve({ type: "modelContentBlockDeltaEvent", delta: { type: "textDelta", text } });
    yield { type: "modelContentBlockStopEvent" };
    yield { type: "modelMessageStopEvent", stopReason: "endTurn" };
  }
}
