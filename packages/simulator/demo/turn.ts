import { contentText, type Message, type ToolDefinition } from "@tare/messages";
import { pairCalls } from "@tare/messages/internal";
import { readResult, type SeenResult } from "./results.ts";

export const RECALL = "recall";

export type CallArguments = Readonly<Record<string, unknown>>;

export interface WantedCall {
  readonly tool: string;
  readonly args: CallArguments;
}

export interface MadeCall extends WantedCall, SeenResult {}

/** Input of the offline demo model: the last question, and the calls since. */
export interface DemoTurn {
  readonly question: string;
  readonly calls: readonly MadeCall[];
  readonly earlier: readonly MadeCall[];
  readonly texts: readonly string[];
  readonly offers: (tool: string, argument?: string) => boolean;
}

export function readDemoTurn(
  messages: readonly Message[],
  tools: readonly ToolDefinition[],
): DemoTurn {
  const end = messages.findLastIndex((message) => message.role === "user") + 1;
  let start = end;
  while (messages[start - 1]?.role === "user") start--;
  const properties = new Map(
    tools.map((tool) => [tool.function.name, Object.keys(Object(tool.function.parameters?.properties))]),
  );
  const calls = withRecalled([...madeCalls(messages.slice(0, start)), ...madeCalls(messages.slice(end))]);
  const earlier = madeCalls(messages.slice(0, start)).length;
  return {
    question: messages.slice(start, end).map((message) => contentText(message.content)).join("\n"),
    calls: calls.slice(earlier),
    earlier: calls.slice(0, earlier),
    texts: messages.filter(({ role }) => role === "user" || role === "assistant")
      .map(({ content }) => contentText(content)),
    offers: (tool, argument) =>
      argument === undefined ? properties.has(tool) : properties.get(tool)?.includes(argument) ?? false,
  };
}

function madeCalls(messages: readonly Message[]): MadeCall[] {
  return pairCalls(messages).flatMap(({ call, answer }) => {
    if (call.type !== "function") return [];
    const args = parseArguments(call.function.arguments);
    return [{ tool: call.function.name, args, ...readResult(contentText(answer?.message.content)) }];
  });
}

function parseArguments(text: string): CallArguments {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? value as CallArguments : {};
  } catch {
    return {};
  }
}

/** Replaces evicted results with recalled ones. A failed or evicted recall changes nothing. */
function withRecalled(calls: readonly MadeCall[]): MadeCall[] {
  const recalls = calls.filter((call) => call.tool === RECALL && call.seen !== "none");
  return calls.map((call) => {
    const recalled = call.ref === undefined ? undefined : recalls.find(({ args }) => args.ref === call.ref);
    if (!recalled || call.tool === RECALL) return call;
    const { text, seen } = recalled;
    return { ...call, seen, text: seen === "whole" ? text : `${call.text}\n${text}` };
  });
}
