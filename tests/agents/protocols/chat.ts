import type { Entry } from "../model.ts";
import { type Fields, list, render, renderTool, type SpokenProtocol, textOf } from "./protocol.ts";

export const CHAT: SpokenProtocol = {
  path: "/v1/chat/completions",
  prices: "openai",
  read(body) {
    const tools = list(body.tools).map((tool) => tool.function as Fields);
    const messages = list(body.messages);
    return {
      turn: {
        entries: messages.flatMap(entriesOf),
        tools: tools.map(({ name }) => String(name)),
      },
      pieces: [
        ...tools.map((tool) => ({
          key: JSON.stringify(tool),
          rendered: renderTool({ ...tool, schema: tool.parameters }),
        })),
        ...messages.map((message) => ({
          key: JSON.stringify(message),
          rendered: render(String(message.role), entriesOf(message)),
        })),
      ],
      seals: [],
    };
  },
  seals: () => false,
  write({ text, calls }, { number, model, usage }) {
    const chunk = (fields: Fields) =>
      `data: ${
        JSON.stringify({
          id: `chatcmpl-${number}`,
          object: "chat.completion.chunk",
          created: 1,
          model,
          ...fields,
        })
      }\n\n`;
    const delta = (delta: Fields) => chunk({ choices: [{ index: 0, delta, finish_reason: null }] });
    return [
      delta({ role: "assistant", content: "" }),
      ...(text?.match(/.{1,40}/gs) ?? []).map((content) => delta({ content })),
      ...calls.flatMap(({ name, args }, index) => [
        delta({
          tool_calls: [{
            index,
            id: `call_${number}_${index}`,
            type: "function",
            function: { name, arguments: "" },
          }],
        }),
        delta({ tool_calls: [{ index, function: { arguments: JSON.stringify(args) } }] }),
      ]),
      chunk({ choices: [{ index: 0, delta: {}, finish_reason: calls.length > 0 ? "tool_calls" : "stop" }] }),
      chunk({
        choices: [],
        usage: {
          prompt_tokens: usage.prompt,
          completion_tokens: usage.output,
          total_tokens: usage.prompt + usage.output,
          prompt_tokens_details: { cached_tokens: usage.cached },
        },
      }),
      "data: [DONE]\n\n",
    ];
  },
  refuse: (_, message) => ({ error: { message, type: "invalid_request_error", param: null, code: null } }),
};

function entriesOf(message: Fields): readonly Entry[] {
  const text = textOf(message.content);
  const role = String(message.role);
  if (role === "tool") return [{ type: "result", id: String(message.tool_call_id), text }];
  const from: "assistant" | "user" | "system" = role === "assistant" || role === "user" ? role : "system";
  return [
    ...(text === "" ? [] : [{ type: "text" as const, role: from, text }]),
    ...list(message.tool_calls).map((call): Entry => {
      const { name, arguments: args } = call.function as Fields;
      return { type: "call", id: String(call.id), name: String(name), args: String(args) };
    }),
  ];
}
