import { ContextOverflowError } from "@langchain/core/errors";
import type { BaseMessage } from "@langchain/core/messages";
import { countRequestTokens } from "@tare/messages";
import { createSummarizationMiddleware } from "deepagents";
import type { MakePolicy } from "@tare/simulator/economy";
import { fromLangChain } from "./langchain_messages.ts";
import { call, State } from "./langchain_state.ts";
import { Summariser, type SummaryCall } from "./summariser.ts";

type Options = Parameters<typeof createSummarizationMiddleware>[0];

/** Keeps no file: what left could be read back there, but nobody reads it. */
const NO_FILES = { write: (path: string) => ({ path }), edit: (path: string) => ({ path }) };

/** Deep Agents' summaries: at 0.85 of the window, or where it overflows, of all but the newest tenth of a window. */
export function deepAgents(summaryCall: SummaryCall): MakePolicy {
  return ({ windowTokens, countTokens }) => {
    const summariser = new Summariser(summaryCall, countTokens);
    const invoke = ([{ text }]: BaseMessage[]) =>
      ({ text: summariser.answer([{ role: "user", content: text }]) }) as const;
    const model = { profile: { maxInputTokens: windowTokens }, invoke };
    const { wrapModelCall } = createSummarizationMiddleware(
      { model, backend: NO_FILES } as unknown as Options,
    );
    const conversation = new State();
    let state: Record<string, unknown> = { _summarizationSessionId: "session" };
    let restTokens = 0;
    let counted = 0;
    return {
      async view({ messages, tools }) {
        const system = conversation.take(messages);
        let view = messages;
        const send = (request: { readonly messages: BaseMessage[] }): void => {
          view = [...system, ...fromLangChain(request.messages)];
          counted = countRequestTokens({ messages: view, tools }, countTokens);
          if (counted + restTokens > windowTokens) throw new ContextOverflowError();
        };
        try {
          const done = await call(wrapModelCall, { messages: conversation.messages, state, model }, send);
          state = {
            ...state,
            ...(done as { readonly update?: Record<string, unknown> } | undefined)?.update,
          };
        } catch (error) {
          // The newest messages alone exceed the window: an agent would end here.
          if (!(error instanceof ContextOverflowError)) throw error;
        }
        return summariser.charge({ messages: view, tools });
      },
      sent({ promptTokens }) {
        restTokens = promptTokens - counted;
      },
    };
  };
}
