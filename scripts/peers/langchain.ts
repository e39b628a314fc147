import { type BaseMessage, trimMessages } from "@langchain/core/messages";
import { messagesStateReducer } from "@langchain/langgraph";
import { countMessageTokens, type Message } from "@tare/messages";
import {
  ClearToolUsesEdit,
  type ClearToolUsesEditConfig,
  contextEditingMiddleware,
  summarizationMiddleware,
} from "langchain";
import type { CallPolicyOptions, MakePolicy } from "@tare/simulator/economy";
import { fromLangChain } from "./langchain_messages.ts";
import { call, State } from "./langchain_state.ts";
import { Summariser, type SummaryCall } from "./summariser.ts";

/** How much of the window a trimmed prompt takes at most. */
const TRIM_SHARE = 0.9;

/**
 * `contextEditingMiddleware` with one `ClearToolUsesEdit`. As in an agent, it edits the list of the agent's state, so
 * what was cleared stays cleared.
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

type Summarisation = Omit<Parameters<typeof summarizationMiddleware>[0], "model">;

/** `summarizationMiddleware`. */
export function summarising(settings: Summarisation, summaryCall: SummaryCall): MakePolicy {
  return ({ windowTokens, countTokens }) => {
    const summariser = new Summariser(summaryCall, countTokens);
    const state = new State();
    const invoke = (prompt: string) => ({ content: summariser.answer([{ role: "user", content: prompt }]) });
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
        return summariser.charge({ messages: [...system, ...fromLangChain(state.messages)], tools });
      },
    };
  };
}

type Trimming = Pick<
  Parameters<typeof trimMessages>[1],
  "startOn" | "endOn" | "includeSystem" | "allowPartial"
>;

/** `trimMessages` before each call, so that the prompt takes nine tenths of the window at most. */
export function trimming(settings: Trimming): MakePolicy {
  return ({ windowTokens, countTokens }: CallPolicyOptions) => {
    const state = new State({ withSystem: true });
    const tokens = new Map<string | undefined, number>();
    let shown: readonly BaseMessage[] = [];
    /** Of the prompt, what isn't messages: tools, and what stands in front of them. */
    let restTokens = 0;
    const tokensOf = (message: BaseMessage): number => {
      let known = tokens.get(message.id);
      if (known === undefined) {
        known = countMessageTokens(message.additional_kwargs.origin as Message, countTokens);
        tokens.set(message.id, known);
      }
      return known;
    };
    return {
      async view({ messages, tools }) {
        state.take(messages);
        shown = await trimMessages(state.messages, {
          strategy: "last",
          maxTokens: TRIM_SHARE * windowTokens - restTokens,
          tokenCounter: sumOfShrinking(tokensOf),
          ...settings,
        });
        return { messages: fromLangChain(shown), tools };
      },
      sent({ promptTokens }) {
        restTokens = promptTokens - shown.reduce((sum, message) => sum + tokensOf(message), 0);
      },
    };
  };
}

/** Sums over lists each of which is mostly the one before without its last message, without counting all anew. */
function sumOfShrinking(tokensOf: (message: BaseMessage) => number): (messages: BaseMessage[]) => number {
  let before: readonly BaseMessage[] = [];
  let sum = 0;
  return (messages) => {
    const dropped = before.at(-1);
    sum = dropped && messages.length === before.length - 1 && messages[0] === before[0]
      ? sum - tokensOf(dropped)
      : messages.reduce((all, message) => all + tokensOf(message), 0);
    before = messages;
    return sum;
  };
}
