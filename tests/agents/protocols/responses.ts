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

export const RESPONSES: SpokenProtocol = {
  path: "/v1/responses",
  prices: "openai",
  read(body) {
    const tools = list(body.tools).filter((tool) => tool.defer_loading !== true);
    const input = typeof body.input === "string" ? [{ role: "user", content: body.input }] : list(body.input);
    const instructions = typeof body.instructions === "string" ? body.instructions : "";
    return {
      turn: {
        entries: [
          ...(instructions === ""
            ? []
            : [{ type: "text" as const, role: "system" as const, text: instructions }]),
          ...input.flatMap(entriesOf),
        ],
        tools: tools.map((tool) => String(tool.name ?? tool.type)),
        compacts: input.at(-1)?.type === "compaction_trigger",
      },
      pieces: [
        ...tools.map(toolPiece),
        ...(instructions === "" ? [] : [{ key: instructions, rendered: `system\n${instructions}` }]),
        ...input.map(itemPiece),
      ],
      seals: input.flatMap((item) => item.type === "reasoning" ? [String(item.encrypted_content)] : []),
    };
  },
  seals: ({ include }) => Array.isArray(include) && include.includes("reasoning.encrypted_content"),
  write({ text, calls, compacted }, { number, model, usage, seal }) {
    const sealed = compacted !== undefined
      ? [{ id: `cmp_${number}`, type: "compaction", encrypted_content: btoa(compacted) }]
      : seal !== undefined
      ? [{ id: `rs_${number}`, type: "reasoning", summary: [], encrypted_content: seal }]
      : [];
    const output: StreamEvent[] = [
      ...sealed,
      ...(text === undefined ? [] : [{
        id: `msg_${number}`,
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text, annotations: [], logprobs: [] }],
      }]),
      ...calls.map(({ name, args }, at) => ({
        id: `fc_${number}_${at}`,
        type: "function_call",
        status: "completed",
        call_id: `call_${number}_${at}`,
        name,
        arguments: JSON.stringify(args),
      })),
    ];
    const response = {
      id: `resp_${number}`,
      object: "response",
      created_at: 1,
      status: "completed",
      error: null,
      incomplete_details: null,
      model,
      output,
      parallel_tool_calls: true,
      store: false,
      tools: [],
      usage: {
        input_tokens: usage.prompt,
        input_tokens_details: { cached_tokens: usage.cached },
        output_tokens: usage.output,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: usage.prompt + usage.output,
      },
    };
    const draft = { ...response, status: "in_progress", output: [], usage: null };
    const events: StreamEvent[] = [
      { type: "response.created", response: draft },
      { type: "response.in_progress", response: draft },
      ...output.flatMap((item, output_index) => itemEvents(item, output_index)),
      { type: "response.completed", response },
    ];
    return events.map((event, sequence_number) => namedEvent({ ...event, sequence_number }));
  },
  refuse: (_, message) => ({ error: { message, type: "invalid_request_error", param: null, code: null } }),
};

type StreamEvent = Fields & { readonly type: string };

function itemEvents(item: StreamEvent, output_index: number): readonly StreamEvent[] {
  const at = { item_id: item.id, output_index };
  const ends = { type: "response.output_item.done", output_index, item };
  const begins = (fields: Fields) => ({
    type: "response.output_item.added",
    output_index,
    item: { ...item, status: "in_progress", ...fields },
  });
  if (item.type === "function_call") {
    return [
      begins({ arguments: "" }),
      { type: "response.function_call_arguments.delta", ...at, delta: item.arguments },
      { type: "response.function_call_arguments.done", ...at, name: item.name, arguments: item.arguments },
      ends,
    ];
  }
  if (item.type !== "message") return [begins({}), ends];
  const [part] = list(item.content);
  const text = String(part?.text);
  const place = { ...at, content_index: 0 };
  return [
    begins({ content: [] }),
    { type: "response.content_part.added", ...place, part: { ...part, text: "" } },
    ...(text.match(/.{1,40}/gs) ?? []).map((delta) => ({
      type: "response.output_text.delta",
      ...place,
      delta,
      logprobs: [],
    })),
    { type: "response.output_text.done", ...place, text, logprobs: [] },
    { type: "response.content_part.done", ...place, part },
    ends,
  ];
}

function toolPiece(tool: Fields): Piece {
  const { type, name = type, parameters, format, tools } = tool;
  return {
    key: JSON.stringify(tool),
    rendered: renderTool({ ...tool, name, schema: parameters ?? format ?? tools }),
  };
}

function itemPiece(item: Fields): Piece {
  // Sealed content counts as its source: a summary, or a few tokens of reasoning.
  const sealed = item.type === "reasoning" ? String(item.encrypted_content) : "";
  const found = list(item.tools).map((tool) => toolPiece(tool).rendered).join("\n");
  const rendered = `${render(String(item.role ?? ""), entriesOf(item))}${sealed}${found}`;
  return { key: JSON.stringify(item), rendered };
}

function entriesOf(item: Fields): readonly Entry[] {
  const type = String(item.type ?? "message");
  const id = String(item.call_id);
  if (type === "message") {
    const role = item.role === "user" || item.role === "assistant" ? item.role : "system";
    return [{ type: "text", role, text: textOf(item.content) }];
  }
  if (type === "compaction") {
    return [{ type: "text", role: "assistant", text: atob(String(item.encrypted_content)) }];
  }
  if (type.endsWith("_call_output")) {
    return [{ type: "result", id, text: textOf(item.output) }];
  }
  if (type.endsWith("_call")) {
    return [{ type: "call", id, name: String(item.name), args: String(item.arguments ?? item.input) }];
  }
  return [];
}
