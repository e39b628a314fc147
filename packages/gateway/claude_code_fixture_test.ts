/**
 * Requests in the exact form of Claude Code, and an upstream for them. Holds no tests.
 * @module
 */
import type { JsonRecord } from "@tare/wire";
import { MessageWriter } from "@tare/wire/internal";
import { gatewayed, UPSTREAM } from "./fixture_test.ts";
import type { Forwarded } from "./fixture_test.ts";

const MARK = { cache_control: { type: "ephemeral" } };

export interface ClaudeMessage {
  readonly role: "user" | "assistant";
  readonly content: readonly JsonRecord[];
}

export interface ClaudeCode {
  readonly session?: string;
  readonly bill?: string;
  /** The state of the repository, in the third block. */
  readonly status?: string;
  readonly system?: string;
  readonly stream?: boolean;
}

const RULES = Array.from({ length: 300 }, (_, at) => `Rule ${at}: keep what people said, whatever it is.`)
  .join("\n");

/**
 * Returns a request of Claude Code, with cache breakpoints on two blocks of the system prompt and on the last block.
 */
export function claudeRequest(history: readonly ClaudeMessage[], now: ClaudeCode = {}): Request {
  const { session = "s1", bill = "a1b", status = "clean", system = RULES, stream = false } = now;
  const messages = history.map(({ role, content }, at) => {
    const [first] = content;
    if (at < history.length - 1) {
      // A text that was sent as a block is sent as a string later.
      return {
        role,
        content: role === "user" && content.length === 1 && first?.type === "text" ? first.text : content,
      };
    }
    return { role, content: [...content.slice(0, -1), { ...content.at(-1), ...MARK }] };
  });
  const body = {
    model: "claude-opus-5",
    messages,
    system: [
      { type: "text", text: `x-anthropic-billing-header: cc_version=2.3.4; cch=${bill};` },
      { type: "text", text: "You are Claude Code, Anthropic's official CLI for Claude.", ...MARK },
      { type: "text", text: `${system}\n\ngitStatus: ${status}`, ...MARK },
    ],
    tools: [BASH],
    metadata: { user_id: JSON.stringify({ device_id: "d", account_uuid: "", session_id: session }) },
    max_tokens: 32000,
    thinking: { type: "enabled", budget_tokens: 31999 },
    context_management: { edits: [{ type: "clear_thinking_20251015", keep: "all" }] },
    ...(stream && { stream }),
  };
  return new Request("http://localhost/v1/messages?beta=true", {
    method: "POST",
    headers: {
      "content-type": "application/json",
      "x-api-key": "sk-ant-client",
      "anthropic-version": "2023-06-01",
      "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14",
      "x-claude-code-session-id": session,
    },
    body: JSON.stringify(body),
  });
}

const BASH = {
  name: "Bash",
  description: "Executes a given bash command in a persistent shell session. ".repeat(30),
  input_schema: { type: "object", properties: { command: { type: "string" } }, required: ["command"] },
};

export function textMessage(role: ClaudeMessage["role"], text: string): ClaudeMessage {
  return { role, content: [{ type: "text", text }] };
}

export function step(name: string, results: readonly string[], reminder?: string): ClaudeMessage[] {
  const ids = results.map((_, at) => `toolu_${name}_${at}`);
  return [
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: `I look at ${name}.`, signature: `sig-${name}` },
        ...ids.map((id) => ({ type: "tool_use", id, name: "Bash", input: { command: `cat ${name}` } })),
      ],
    },
    {
      role: "user",
      content: [
        ...results.map((content, at) => ({ type: "tool_result", tool_use_id: ids[at], content })),
        ...(reminder === undefined ? [] : [{ type: "text", text: reminder }]),
      ],
    },
  ];
}

export interface Replied {
  readonly content?: string;
  readonly thoughts?: string;
  readonly calls?: readonly { readonly name: string; readonly args: object; readonly id: string }[];
}

/** Returns a gateway before an upstream with these replies, streamed if requested. */
export function claudeGateway(
  reply: (request: Forwarded, index: number) => Replied | Response,
): ReturnType<typeof gatewayed> {
  return gatewayed((request, index) => {
    const replied = reply(request, index);
    if (replied instanceof Response) return replied;
    const { content = null, thoughts, calls = [] } = replied;
    const message = {
      role: "assistant" as const,
      content,
      ...(thoughts !== undefined && { reasoning_content: thoughts, signature: `sig-${thoughts}` }),
      tool_calls: calls.map(({ name, args, id }) => ({
        id,
        type: "function" as const,
        function: { name, arguments: JSON.stringify(args) },
      })),
    };
    const promptTokens = Math.ceil(request.text.length / 4);
    const usage = { promptTokens, cachedTokens: 0, cacheWriteTokens: promptTokens, hourWriteTokens: 0 };
    const written = {
      id: `msg_${index}`,
      model: request.body.model,
      message,
      finishReason: calls.length > 0 ? "tool_calls" : "stop",
      usage: { ...usage, outputTokens: 5 },
    };
    if (!request.body.stream) return Response.json(new MessageWriter(written).body());
    const events = new MessageWriter(written).events().map((event) =>
      `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
    );
    return new Response(events.join(""), { headers: { "content-type": "text/event-stream" } });
  }, { upstreams: { messages: { ...UPSTREAM, baseURL: "http://claude.example/v1" } } });
}
