// Events of the Messages API, and a provider on loopback that sends them.
import { anthropicModel, type AnthropicModelOptions } from "@tare/loop/anthropic";
import type { ModelRequest } from "@tare/messages";
import { askProvider, type SentRequest, stream } from "../provider_fixture_test.ts";

export type StreamEvent = { readonly type: string } & Readonly<Record<string, unknown>>;

export function sse(event: StreamEvent): string {
  return `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`;
}

export function block(index: number, begun: object, ...deltas: readonly object[]): StreamEvent[] {
  return [
    { type: "content_block_start", index, content_block: begun },
    ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
    { type: "content_block_stop", index },
  ];
}

export function text(index: number, ...pieces: readonly string[]): StreamEvent[] {
  const deltas = pieces.map((piece) => ({ type: "text_delta", text: piece }));
  return block(index, { type: "text", text: "" }, ...deltas);
}

export function call(index: number, id: string, ...pieces: readonly string[]): StreamEvent[] {
  const deltas = pieces.map((piece) => ({ type: "input_json_delta", partial_json: piece }));
  return block(index, { type: "tool_use", id, name: "f", input: {} }, ...deltas);
}

export function thinking(index: number, thought: string, signature: string): StreamEvent[] {
  return block(
    index,
    { type: "thinking", thinking: "", signature: "" },
    { type: "thinking_delta", thinking: thought },
    { type: "signature_delta", signature },
  );
}

export const START: StreamEvent = {
  type: "message_start",
  message: { usage: { input_tokens: 3, cache_read_input_tokens: 5, output_tokens: 1 } },
};

export function end(stop_reason: string, usage: object = { output_tokens: 7 }): StreamEvent[] {
  return [{ type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage }, {
    type: "message_stop",
  }];
}

export function reply(stop_reason: string, ...events: readonly StreamEvent[]): Response {
  return stream(...[START, ...events, ...end(stop_reason)].map(sse));
}

export async function ask(
  answers: Response | readonly Response[],
  options: Partial<AnthropicModelOptions> & { readonly request?: Partial<ModelRequest> } = {},
): Promise<SentRequest> {
  const { request, ...modelOptions } = options;
  const make = (baseURL: string) =>
    anthropicModel({ model: "m", baseURL, maxRetries: 0, maxTokens: 100, ...modelOptions });
  return await askProvider(answers, { make, request });
}
