import type { BaseMessage } from "@langchain/core/messages";
import { messagesStateReducer } from "@langchain/langgraph";
import {
  ClearToolUsesEdit,
  type ClearToolUsesEditConfig,
  contextEditingMiddleware,
  summarizationMiddleware,
} from "langchain";
import type { MakePolicy } from "@tare/simulator/economy";
import { fromLangChain } from "./langchain_messages.ts";
import { call, State } from "./langchain_state.ts";
import { Summarizer, type SummaryCall } from "./summarizer.ts";

/**
 * Returns `contextEditingMiddleware` with one `ClearToolUsesEdit` as a policy, which edits the state's
 * messages.
 */
export function clearing(settings: ClearToolUsesEditConfig = {}): MakePolicy {
  return ({ windowTokens }) => {
    const { wrapModelCall } = contextEditingMiddleware({ edits: [new ClearToolUsesEdit(settings)] });
    const state = new State();
    const model = { profile: { maxInputTokens: windowTokens } };
    return {
      async view({ messages, tools }) {
        const system = state.take(messages);
        const request = { messages: state.messages, model };
        await call(wrapModelCall, request, () => undefined);
        return { messages: [...system, ...fromLangChain(state.messages)], tools };
      },
    };
  };
}

/** Trigger of `summarizationMiddleware`, and the messages that it retains. */
interface Summarization {
  readonly trigger: { readonly tokens: number } | { readonly fraction: number };
  readonly keep: { readonly messages: number } | { readonly fraction: number };
}

export function summarizing(settings: Summarization, summaryCall: SummaryCall): MakePolicy {
  return ({ windowTokens, countTokens }) => {
    const summarizer = new Summarizer(summaryCall, countTokens);
    const state = new State();
    const invoke = (prompt: string) => ({ content: summarizer.answer([{ role: "user", content: prompt }]) });
    const model = { profile: { maxInputTokens: windowTokens }, invoke };
    const { beforeModel } = summarizationMiddleware(
      { ...settings, model } as unknown as Parameters<typeof summarizationMiddleware>[0],
    );
    return {
      async view({ messages, tools }) {
        const system = state.take(messages);
        const update = await call(beforeModel, { messages: state.messages }, { context: {} });
        if (update) {
          state.messages = messagesStateReducer(
            state.messages,
            (update as { messages: BaseMessage[] }).messages,
          );
        }
        return summarizer.charge({ messages: [...system, ...fromLangChain(state.messages)], tools });
      },
    };
  };
}
