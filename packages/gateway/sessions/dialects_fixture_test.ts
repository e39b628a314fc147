/**
 * Messages of clients and providers in three protocols. Holds no tests.
 * @module
 */
import type { JsonRecord } from "@tare/wire";
import { MessageWriter } from "@tare/wire/internal";
import { chatStep, codexStep, execCommand, type Json, messageItem } from "../agents_fixture_test.ts";
import { call, chunk, completion, READ, sse } from "../fixture_test.ts";
import { responsesUpstream } from "../responses_fixture_test.ts";

/** A model's reply: text, a step, or a recall by reference or text. */
export type Reply =
  | { readonly text: string; readonly id: string }
  | { readonly step: string }
  | { readonly recalls: string; readonly by?: "ref" | "find" };

export interface Dialect {
  readonly name: string;
  readonly path: string;
  opening(task: string): readonly Json[];
  message(role: "user" | "assistant", text: string, id: string): Json;
  step(name: string, output: string): readonly Json[];
  body(history: readonly Json[], now: { readonly rules: string; readonly tools: boolean }): JsonRecord;
  answer(body: JsonRecord, reply: Reply, cachedTokens: number): Promise<Response>;
}

function recalled({ recalls, by = "ref" }: Extract<Reply, { readonly recalls: string }>): object {
  return { [by]: recalls };
}

const tokensOf = (body: JsonRecord) => Math.ceil(JSON.stringify(body).length / 4);

export const CHAT: Dialect = {
  name: "chat",
  path: "/chat/completions",
  opening: (task) => [{ role: "user", content: task }],
  message: (role, content) => ({ role, content }),
  step: chatStep,
  body: (history, { rules, tools }) => ({
    model: "gpt-5",
    messages: [{ role: "system", content: rules }, ...history],
    ...(tools && { tools: [READ] }),
  }),
  answer(body, reply, cached_tokens) {
    const prompt_tokens = tokensOf(body);
    const usage = {
      prompt_tokens,
      completion_tokens: 5,
      total_tokens: prompt_tokens + 5,
      prompt_tokens_details: { cached_tokens },
    };
    const calls = "recalls" in reply
      ? [call("recall", recalled(reply), `r${reply.recalls}`)]
      : "step" in reply
      ? chatStep(reply.step, "")[0]!.tool_calls as object[]
      : [];
    const message = "text" in reply ? { content: reply.text } : { tool_calls: calls };
    if (!body.stream) {
      return completion(message).json().then((whole) => Response.json({ ...whole, usage }));
    }
    const tool_calls = calls.map((one, index) => ({ index, ...one }));
    const delta = "text" in reply ? message : { tool_calls };
    const end = { id: "c", object: "chat.completion.chunk", choices: [], usage };
    const reason = "text" in reply ? "stop" : "tool_calls";
    return Promise.resolve(sse(chunk(delta), chunk({}, reason), end, "[DONE]"));
  },
};

export const RESPONSES: Dialect = {
  name: "responses",
  path: "/responses",
  opening: (
    task,
  ) => [
    messageItem("user", "<environment_context>/work</environment_context>", "msg_env"),
    messageItem("user", task, "msg_task"),
  ],
  message: messageItem,
  step: (name, output) => codexStep(name, output),
  body: (input, { rules, tools }) => ({
    model: "gpt-5",
    instructions: rules,
    input,
    ...(tools && { tools: [{ ...READ.function, type: "function", strict: false }] }),
    store: false,
  }),
  async answer(body, reply, cached_tokens) {
    const items = "text" in reply
      ? [{ ...messageItem("assistant", reply.text, reply.id), status: "completed" }]
      : "step" in reply
      ? [codexStep(reply.step, "")[0]!, execCommand(reply.step)]
      : [{
        ...execCommand(reply.recalls),
        name: "recall",
        arguments: JSON.stringify(recalled(reply)),
      }];
    const { fetch } = responsesUpstream([() => items]);
    const answer = await fetch("http://provider.example", { method: "POST", body: JSON.stringify(body) });
    const text = (await answer.text()).replaceAll('"cached_tokens":0', `"cached_tokens":${cached_tokens}`)
      .replaceAll('"resp_1"', JSON.stringify(`resp_${tokensOf(body)}`));
    return new Response(text, { headers: answer.headers });
  },
};

const toolCall = (id: string, name: string, args: object) => ({
  id,
  type: "function" as const,
  function: { name, arguments: JSON.stringify(args) },
});
const MARK = { cache_control: { type: "ephemeral" } };

export const MESSAGES: Dialect = {
  name: "messages",
  path: "/messages",
  opening: (task) => [{ role: "user", content: [{ type: "text", text: task }] }],
  message: (role, text) => ({ role, content: [{ type: "text", text }] }),
  step: (name, output) => [
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: `I look at ${name}.`, signature: `sig-${name}` },
        { type: "tool_use", id: `toolu_${name}`, name: "read", input: { path: name } },
      ],
    },
    { role: "user", content: [{ type: "tool_result", tool_use_id: `toolu_${name}`, content: output }] },
  ],
  body(history, { rules, tools }) {
    const last = history.at(-1) as { role: string; content: readonly Json[] };
    const marked = { ...last, content: [...last.content.slice(0, -1), { ...last.content.at(-1), ...MARK }] };
    const { name, parameters } = READ.function;
    return {
      model: "claude-opus-5",
      max_tokens: 1000,
      system: [{ type: "text", text: rules, ...MARK }],
      messages: [...history.slice(0, -1), marked],
      ...(tools && { tools: [{ name, input_schema: parameters }] }),
    };
  },
  answer(body, reply, cachedTokens) {
    const promptTokens = tokensOf(body);
    const written = {
      id: `msg_${promptTokens}`,
      model: String(body.model),
      message: {
        role: "assistant" as const,
        content: "text" in reply ? reply.text : null,
        ...("step" in reply && {
          reasoning_content: `I look at ${reply.step}.`,
          signature: `sig-${reply.step}`,
        }),
        tool_calls: "text" in reply ? [] : [
          "step" in reply
            ? toolCall(`toolu_${reply.step}`, "read", { path: reply.step })
            : toolCall(`toolu_${reply.recalls}`, "recall", recalled(reply)),
        ],
      },
      finishReason: "text" in reply ? "stop" as const : "tool_calls" as const,
      usage: {
        promptTokens,
        cachedTokens,
        cacheWriteTokens: promptTokens - cachedTokens,
        hourWriteTokens: 0,
        outputTokens: 5,
      },
    };
    if (!body.stream) return Promise.resolve(Response.json(new MessageWriter(written).body()));
    const events = new MessageWriter(written).events().map((event) =>
      `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
    );
    return Promise.resolve(
      new Response(events.join(""), { headers: { "content-type": "text/event-stream" } }),
    );
  },
};

export const DIALECTS: readonly Dialect[] = [CHAT, RESPONSES, MESSAGES];
