import type { Entry } from "../model.ts";
import {
  type Fields,
  list,
  namedEvent,
  type Piece,
  render,
  renderTool,
  type SpokenProtocol,
  textOf,
} from "./protocol.ts";

export const MESSAGES: SpokenProtocol = {
  path: "/v1/messages",
  prices: "anthropic-5m",
  read(body) {
    const tools = list(body.tools);
    const system = blocksOf(body.system);
    const messages = list(body.messages).map(({ role, content }) => ({
      role: role === "assistant"
        ? "assistant" as const
        : role === "user"
        ? "user" as const
        : "system" as const,
      blocks: blocksOf(content),
    }));
    const rendered = new Map(
      tools.map((tool) => [tool.name, renderTool({ ...tool, schema: tool.input_schema })] as const),
    );
    const loaded = tools.filter((tool) => tool.defer_loading !== true);
    const pieces = [
      ...loaded.map((tool) => pieceOf(tool, rendered.get(tool.name) ?? "")),
      ...system.map((block) => pieceOf(block, render("system", entriesOf("system", block)))),
      ...messages.flatMap(({ role, blocks }) =>
        blocks.map((block, at) => pieceOf(block, renderBlock(role, block, rendered), at === 0 ? role : ""))
      ),
    ];
    const last = pieces.pop();
    return {
      turn: {
        entries: [
          ...system.map((block): Entry => ({ type: "text", role: "system", text: textOf([block]) })),
          ...messages.flatMap(({ role, blocks }) => blocks.flatMap((block) => entriesOf(role, block))),
        ],
        tools: loaded.map((tool) => String(tool.name)),
      },
      // A breakpoint of the whole request applies to its last block.
      pieces: [...pieces, ...(last ? [{ ...last, mark: last.mark ?? markOf(body) }] : [])],
      seals: messages.flatMap(({ blocks }) =>
        blocks.flatMap((block) => block.type === "thinking" ? [String(block.signature)] : [])
      ),
    };
  },
  seals: ({ thinking }) => ["enabled", "adaptive"].includes(String((thinking as Fields | undefined)?.type)),
  write({ text, calls }, { number, model, usage, seal }) {
    const { written = 0, hourWritten = 0 } = usage;
    const prompt = {
      input_tokens: usage.prompt - usage.cached - written,
      cache_creation_input_tokens: written,
      cache_read_input_tokens: usage.cached,
      cache_creation: {
        ephemeral_5m_input_tokens: written - hourWritten,
        ephemeral_1h_input_tokens: hourWritten,
      },
    };
    const blocks: { readonly start: Fields; readonly deltas: readonly Fields[] }[] = [
      ...(seal === undefined ? [] : [{
        start: { type: "thinking", thinking: "", signature: "" },
        deltas: [{ type: "thinking_delta", thinking: "On it." }, {
          type: "signature_delta",
          signature: seal,
        }],
      }]),
      ...(text === undefined ? [] : [{
        start: { type: "text", text: "" },
        deltas: (text.match(/.{1,40}/gs) ?? []).map((text) => ({ type: "text_delta", text })),
      }]),
      ...calls.map(({ name, args }, at) => ({
        start: { type: "tool_use", id: `toolu_${number}_${at}`, name, input: {} },
        deltas: [{ type: "input_json_delta", partial_json: JSON.stringify(args) }],
      })),
    ];
    return [
      {
        type: "message_start",
        message: {
          id: `msg_${number}`,
          type: "message",
          role: "assistant",
          model,
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: { ...prompt, output_tokens: 1 },
        },
      },
      { type: "ping" },
      ...blocks.flatMap(({ start, deltas }, index) => [
        { type: "content_block_start", index, content_block: start },
        ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
        { type: "content_block_stop", index },
      ]),
      {
        type: "message_delta",
        delta: { stop_reason: calls.length > 0 ? "tool_use" : "end_turn", stop_sequence: null },
        usage: { ...prompt, output_tokens: usage.output },
      },
      { type: "message_stop" },
    ].map(namedEvent);
  },
  refuse: (status, message) => ({
    type: "error",
    error: {
      type: { 400: "invalid_request_error", 429: "rate_limit_error" }[status] ?? "api_error",
      message,
    },
  }),
};

function blocksOf(content: unknown): readonly Fields[] {
  return typeof content === "string" ? [{ type: "text", text: content }] : list(content);
}

function pieceOf(block: Fields, rendered: string, role = ""): Piece {
  const key = JSON.stringify(block, (name, value) => name === "cache_control" ? undefined : value);
  return { key: `${role}${key}`, rendered, mark: markOf(block) };
}

function markOf({ cache_control: mark }: Fields): Piece["mark"] {
  if (!mark) return undefined;
  return (mark as Fields).ttl === "1h" ? "1h" : "5m";
}

function renderBlock(
  role: "user" | "assistant" | "system",
  block: Fields,
  tools: ReadonlyMap<unknown, string>,
): string {
  if (block.type === "thinking") return `${role}\n${block.thinking}`;
  if (block.type === "tool_use") {
    const args = Object.entries(block.input as Fields).map(([name, value]) =>
      `${name}\n${typeof value === "string" ? value : JSON.stringify(value)}`
    );
    return [role, block.name, ...args].join("\n");
  }
  // A deferred tool appears where it was found.
  const found = list(block.content).flatMap(({ type, tool_name }) =>
    type === "tool_reference" ? [tools.get(tool_name) ?? ""] : []
  );
  return [render(role, entriesOf(role, block)), ...found].join("\n");
}

function entriesOf(role: "user" | "assistant" | "system", block: Fields): readonly Entry[] {
  if (block.type === "text") return [{ type: "text", role, text: String(block.text) }];
  if (block.type === "tool_result") {
    return [{ type: "result", id: String(block.tool_use_id), text: textOf(block.content) }];
  }
  if (block.type !== "tool_use") return [];
  return [{
    type: "call",
    id: String(block.id),
    name: String(block.name),
    args: JSON.stringify(block.input),
  }];
}
