import {
  countRequestTokens,
  type CountTokens,
  describeCall,
  type Message,
  type ToolDefinition,
} from "@tare/messages";
import { readRecording, type Recording } from "@tare/simulator/economy";
import { asRecord } from "@tare/wire";
import type { LoggedMessage, LoggedSession } from "./log.ts";

/** A session as a line of a recording file, which `bench:economy --data` reads. */
export function recordingLine(
  agent: string,
  { id, group, calls, messages, compacted }: LoggedSession,
  countTokens: CountTokens,
): string {
  const models: Record<string, number> = {};
  for (const { model } of calls) models[model] = (models[model] ?? 0) + 1;
  const inOrder = Object.fromEntries(Object.entries(models).sort(([, a], [, b]) => b - a));
  const prefix = fixedPrefixTokens(messages, countTokens);
  return JSON.stringify({
    ...{ id: `${agent} ${id}`, group, source: agent, models: inOrder, tools_origin: "substitute" },
    tools: calledTools(messages),
    compactions: compacted.map((at) => ({ before_message: at })),
    ...(prefix > 0 && { recorded_fixed_prefix_tokens: prefix }),
    messages,
  });
}

/** The session as the engine plays it; nothing of one in which it has nothing to do. */
export function recordingOf(
  agent: string,
  session: LoggedSession,
  countTokens: CountTokens,
): Recording | undefined {
  const calls = session.messages.some((message) => message.role === "assistant" && message.tool_calls);
  if (!calls || !session.messages.some(({ role }) => role === "user")) return undefined;
  return readRecording(recordingLine(agent, session, countTokens));
}

/** Tools by the names and parameters of their calls: logs don't hold their definitions. */
function calledTools(messages: readonly Message[]): ToolDefinition[] {
  const tools = new Map<string, Set<string>>();
  for (const message of messages) {
    for (const call of message.role === "assistant" ? message.tool_calls ?? [] : []) {
      const { name, arguments: input } = describeCall(call);
      const known = tools.get(name) ?? new Set();
      for (const field of call.type === "function" ? fieldsOf(input) : []) known.add(field);
      tools.set(name, known);
    }
  }
  return [...tools].map(([name, fields]) => ({
    type: "function",
    function: {
      name,
      parameters: {
        type: "object",
        properties: Object.fromEntries([...fields].map((field) => [field, {}])),
      },
    },
  }));
}

function fieldsOf(input: string): string[] {
  try {
    return Object.keys(asRecord(JSON.parse(input)) ?? {});
  } catch {
    // What a model wrote that is no JSON names no fields.
    return [];
  }
}

/** Tokens of the first prompt that the log doesn't show: system prompt, definitions of tools, memory files. */
function fixedPrefixTokens(messages: readonly LoggedMessage[], countTokens: CountTokens): number {
  const first = messages.findIndex(({ role }) => role === "assistant");
  const { input = 0, cache_read = 0, cache_write = 0 } = messages[first]?.usage ?? {};
  const shown = countRequestTokens({ messages: messages.slice(0, Math.max(0, first)) }, countTokens);
  return Math.max(0, input + cache_read + cache_write - shown);
}
