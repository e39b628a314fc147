import type { AssistantMessage, FunctionToolCall, Message, ToolDefinition } from "@tare/messages";

type Handler = (request: Request) => Promise<Response>;
type Fields = Readonly<Record<string, unknown>>;

/** An item of a response's input or output, as far as it is read here. */
interface Item extends Fields {
  readonly type?: string;
  readonly id?: string;
}

interface ResponsesBody extends Fields {
  readonly model: string;
  readonly input: string | readonly Item[];
  readonly instructions?: string | null;
  readonly tools?: readonly Fields[];
  readonly stream?: boolean;
  readonly store?: boolean;
  readonly previous_response_id?: string | null;
}

/**
 * Teaches a provider of chat completions the responses format, streamed or not: items become messages and the reply
 * becomes items, so that prompts are counted and cached as chat completions are. Responses are kept unless
 * `store: false`, for `previous_response_id` and for references to their items.
 */
export function responsesUpstream(chat: Handler): Handler {
  const conversations = new Map<string, readonly Item[]>();
  const items = new Map<string, Item>();
  return async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname !== "/v1/responses") return await chat(request);
    const body: ResponsesBody = await request.json();
    const before = body.previous_response_id ? conversations.get(body.previous_response_id) : [];
    if (!before) return refusal(`Previous response ${body.previous_response_id} was not found.`);
    const asked: Item[] = [...before];
    for (const item of typeof body.input === "string" ? [userItem(body.input)] : body.input) {
      const known = item.type === "item_reference" ? items.get(String(item.id)) : item;
      if (!known) return refusal(`Item ${item.id} was not found.`);
      asked.push(known);
    }
    const answer = await chat(
      new Request(new URL("/v1/chat/completions", request.url), {
        method: "POST",
        headers: { authorization: request.headers.get("authorization") ?? "" },
        body: JSON.stringify({
          model: body.model,
          messages: toMessages(asked, body.instructions),
          // Of chat completions an empty list is refused.
          ...((body.tools ?? []).length > 0 && { tools: body.tools!.map(toDefinition) }),
        }),
      }),
    );
    if (!answer.ok) return answer;
    const response = toResponse(await answer.json(), body);
    if (body.store !== false) {
      conversations.set(response.id, [...asked, ...response.output]);
      for (const item of response.output) items.set(String(item.id), item);
    }
    return body.stream
      ? new Response([...responseEvents(response)].map(eventText).join(""), {
        headers: { "content-type": "text/event-stream" },
      })
      : Response.json(response);
  };
}

function refusal(message: string): Response {
  return Response.json({ error: { message, type: "invalid_request_error", param: null, code: null } }, {
    status: 400,
  });
}

function userItem(text: string): Item {
  return { type: "message", role: "user", content: text };
}

/** Calls join the assistant message before them, as one reply is one message. */
function toMessages(items: readonly Item[], instructions: string | null | undefined): Message[] {
  const messages: Message[] = instructions ? [{ role: "system", content: instructions }] : [];
  for (const item of items) {
    if (item.type === "function_call") {
      const call: FunctionToolCall = {
        id: String(item.call_id),
        type: "function",
        function: { name: String(item.name), arguments: String(item.arguments) },
      };
      const last = messages.at(-1);
      if (last?.role === "assistant") {
        messages[messages.length - 1] = { ...last, tool_calls: [...last.tool_calls ?? [], call] };
      } else messages.push({ role: "assistant", content: null, tool_calls: [call] });
    } else if (item.type === "function_call_output") {
      messages.push({ role: "tool", tool_call_id: String(item.call_id), content: textOf(item.output) });
    } else if (item.type === undefined || item.type === "message") {
      messages.push({ role: item.role, content: textOf(item.content) } as Message);
    }
  }
  return messages;
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  return (content as readonly { readonly text?: string }[]).map(({ text = "" }) => text).join("");
}

function toDefinition({ name, description, parameters }: Fields): ToolDefinition {
  return { type: "function", function: { name, description, parameters } } as ToolDefinition;
}

interface Completion {
  readonly id: string;
  readonly created: number;
  readonly model: string;
  readonly choices: readonly [{ readonly message: AssistantMessage }];
  readonly usage: Readonly<Record<string, number>> & {
    readonly prompt_tokens_details: Fields;
    readonly completion_tokens_details: Fields;
  };
}

function toResponse({ id, created, model, choices: [{ message }], usage }: Completion, body: ResponsesBody) {
  const number = id.replace("chatcmpl-", "");
  const calls = (message.tool_calls ?? []) as readonly FunctionToolCall[];
  const output: Item[] = [
    ...(message.content
      ? [{
        id: `msg_${number}`,
        type: "message",
        role: "assistant",
        status: "completed",
        content: [{ type: "output_text", text: message.content, annotations: [], logprobs: [] }],
      }]
      : []),
    ...calls.map((call, at) => ({
      id: `fc_${number}_${at}`,
      type: "function_call",
      status: "completed",
      call_id: call.id,
      ...call.function,
    })),
  ];
  return {
    id: `resp_${number}`,
    object: "response",
    created_at: created,
    status: "completed",
    background: false,
    error: null,
    incomplete_details: null,
    instructions: body.instructions ?? null,
    max_output_tokens: null,
    metadata: {},
    model,
    output,
    parallel_tool_calls: true,
    previous_response_id: body.previous_response_id ?? null,
    store: body.store ?? true,
    temperature: 1,
    text: { format: { type: "text" } },
    tool_choice: "auto",
    tools: body.tools ?? [],
    top_p: 1,
    truncation: "disabled",
    usage: {
      input_tokens: usage.prompt_tokens,
      input_tokens_details: usage.prompt_tokens_details,
      output_tokens: usage.completion_tokens,
      output_tokens_details: usage.completion_tokens_details,
      total_tokens: usage.total_tokens,
    },
  };
}

function* responseEvents(response: ReturnType<typeof toResponse>): Generator<Fields & { type: string }> {
  const draft = { ...response, status: "in_progress", output: [], usage: null };
  yield { type: "response.created", response: draft };
  yield { type: "response.in_progress", response: draft };
  for (const [output_index, item] of response.output.entries()) {
    const at = { item_id: item.id, output_index };
    const isCall = item.type === "function_call";
    const begun = { ...item, status: "in_progress", ...(isCall ? { arguments: "" } : { content: [] }) };
    yield { type: "response.output_item.added", output_index, item: begun };
    if (isCall) {
      yield { type: "response.function_call_arguments.delta", ...at, delta: item.arguments };
      yield {
        type: "response.function_call_arguments.done",
        ...at,
        name: item.name,
        arguments: item.arguments,
      };
    } else {
      const [part] = item.content as readonly [{ readonly text: string }];
      const { text } = part;
      const place = { ...at, content_index: 0 };
      yield { type: "response.content_part.added", ...place, part: { ...part, text: "" } };
      for (const delta of text.match(/.{1,16}/gs) ?? []) {
        yield { type: "response.output_text.delta", ...place, delta, logprobs: [] };
      }
      yield { type: "response.output_text.done", ...place, text, logprobs: [] };
      yield { type: "response.content_part.done", ...place, part };
    }
    yield { type: "response.output_item.done", output_index, item };
  }
  yield { type: "response.completed", response };
}

function eventText(event: Fields & { readonly type: string }, sequence_number: number): string {
  return `event: ${event.type}\ndata: ${JSON.stringify({ ...event, sequence_number })}\n\n`;
}
