import {
  contentText,
  type CountTokens,
  describeCall,
  type Message,
  type Model,
  type ToolCall,
} from "@tare/messages";
import type { Summarise } from "@tare/planner";

/** Longest time that a summary may take, in milliseconds. */
const SUMMARY_TIMEOUT_MS = 120_000;

const INSTRUCTIONS =
  "The conversation below is the older part of a longer one between a user and an agent with tools. Summarise it for the " +
  "agent, who will go on without seeing it: what the user wants, what was found and decided and why, what was changed " +
  "and where (paths, names, identifiers as they are), what is still open. Leave out what no longer matters. Answer with " +
  "the summary alone.";

/**
 * Lets a model summarise old messages. They are sent as a transcript in one user message, so that no provider misses
 * the tools that were called in them. A summary that takes longer than two minutes fails.
 */
export function summariseWith(model: Model, countTokens: CountTokens): Summarise {
  return async (messages, signal) => {
    const prompt = `${INSTRUCTIONS}\n\n${messages.map(transcribe).join("\n\n")}`;
    const timeout = AbortSignal.timeout(SUMMARY_TIMEOUT_MS);
    const stop = signal ? AbortSignal.any([signal, timeout]) : timeout;
    for await (
      const event of model({ messages: [{ role: "user", content: prompt }], tools: [], signal: stop })
    ) {
      if (event.type !== "completed") continue;
      const text = contentText(event.message.content);
      const counted = { promptTokens: countTokens(prompt), cachedTokens: 0, outputTokens: countTokens(text) };
      return { text, usage: event.usage ?? { ...counted, estimated: true } };
    }
    throw new Error("Cannot summarise: the model's reply ended without an end.");
  };
}

function transcribe(message: Message): string {
  const calls = message.role === "assistant" ? message.tool_calls ?? [] : [];
  return [`${message.role}:`, contentText(message.content), ...calls.map(transcribeCall)].filter(Boolean)
    .join(
      "\n",
    );
}

function transcribeCall(call: ToolCall): string {
  const { name, arguments: input } = describeCall(call);
  return `(calls ${name}: ${input})`;
}
