import type { Caller, Store } from "@tare/session";
import type { ContentPart } from "@tare/messages";
import type { JsonRecord } from "@tare/wire";
import { ApiError, type ResponseBody, ResponseEventWriter } from "@tare/wire/internal";
import type { SseMessage } from "@tare/wire/internal/sse";
import { HttpError } from "../http/http_error.ts";
import { route } from "../http/route.ts";
import { type ChatMessage, type Dialogue, readChatMessages } from "./chat_completions.ts";
import { type ClientToolFields, readToolFields, type ToolFields } from "./client_tools.ts";
import { type AsModelOptions, continueConversation } from "./continue_conversation.ts";
import { API_ERRORS, refuseUnsupported, toApiError, TURN_ERRORS, unsupported, unusable } from "./errors.ts";
import {
  type InputItem,
  type InputPart,
  RESPONSE,
  RESPONSE_EVENT,
  RESPONSES_REQUEST,
  type ResponsesRequest,
  UNSUPPORTED_IN_RESPONSES,
} from "./responses_schema.ts";
import {
  findResponse,
  listedItems,
  type StoredResponse,
  storedResponse,
  visibleTo,
} from "./stored_responses.ts";
import {
  cancelWithClient,
  type ConversationTurn,
  SESSION_HEADER,
  streamError,
  streamTurn,
} from "./turn_answer.ts";

type ResponseEvent = ReturnType<ResponseEventWriter["begin"]>[number];

/**
 * Returns `POST /v1/responses`, which differs from `chatCompletionsRoute()`:
 * - `previous_response_id` continues in that response's session or, if that has continued or the `instructions`
 * differ, in a new one with the history up to there. Without it, `input` is the whole conversation.
 * - `instructions`, and system and developer messages, hold for one response.
 * - Each step's text is a message; progress is the summary of a reasoning item.
 * - A response that a limit ended is `incomplete`; a cancelled or failed one isn't stored.
 * - A call of one of the client's functions ends the response; a following one continues with the results.
 * - `response.failed` ends the stream of a turn that fails after its model responded.
 */
export function createResponseRoute(options: AsModelOptions) {
  const { onError, heartbeat, store: { now } } = options;
  return route({
    method: "POST",
    path: "/v1/responses",
    operationId: "createResponse",
    summary: "Answers a conversation in the responses format.",
    begins: true,
    body: RESPONSES_REQUEST,
    responses: {
      200: {
        description: "The response, as one object or as a stream.",
        content: { "application/json": RESPONSE, "text/event-stream": RESPONSE_EVENT },
      },
      ...TURN_ERRORS,
    },
    errors: API_ERRORS,
    async answer({ signal, body, keep, caller }) {
      refuseUnsupported(body, UNSUPPORTED_IN_RESPONSES);
      const id = `resp_${crypto.randomUUID().replaceAll("-", "")}`;
      const writer = new ResponseEventWriter(ResponseEventWriter.empty(body, { id, createdAtMs: now() }));
      const turn = await begin(body, { ...options, caller }).catch((error) => Promise.reject(renamed(error)));
      cancelWithClient(turn, signal);
      keep({ sessionId: turn.sessionId });
      const input = listedItems(inputItems(body.input), ResponseEventWriter.hexOf(id) ?? "");
      const events = responseEvents(turn, { writer, input, now });
      if (body.stream) return await streamTurn(turn, { messages: toSse(events, onError), heartbeat });
      await Array.fromAsync(events);
      return { json: writer.response, headers: { [SESSION_HEADER]: turn.sessionId } };
    },
  });
}

async function begin(
  body: ResponsesRequest,
  { caller, ...all }: AsModelOptions & { readonly caller: Caller },
): Promise<ConversationTurn> {
  const options = { ...all, store: visibleTo(all.store, caller) };
  const { previous_response_id: previousId, max_output_tokens: maxOutputTokens } = body;
  const previous = previousId ? await findPrevious(previousId, options) : undefined;
  return await continueConversation({
    ...readToolFields(fieldsOf(body), options.sessions.takenNames),
    ...await readResponseInput(body, { store: options.store, previous: previous?.response }),
    user: body.safety_identifier ?? body.user ?? "",
    metadata: body.metadata ?? {},
    ...(previous && { after: previous.point }),
    ...(maxOutputTokens != null && { maxOutputTokens }),
  }, { ...options, caller });
}

function fieldsOf({ tools, tool_choice: choice, ...body }: ResponsesRequest): ToolFields {
  const { temperature, top_p, parallel_tool_calls, reasoning, text } = body;
  const { type, name } = Object(choice) as { readonly type?: unknown; readonly name?: unknown };
  return {
    tools: (tools ?? []).map((tool) => ({
      type: tool.type,
      spec: tool.name === undefined ? undefined : tool as NonNullable<ClientToolFields["spec"]>,
    })),
    toolChoice: typeof choice !== "object" || !choice
      ? choice ?? undefined
      : type === "function" && typeof name === "string"
      ? { name }
      : "",
    settings: {
      ...{ temperature, top_p, parallel_tool_calls },
      ...{ reasoning_effort: reasoning?.effort, verbosity: text?.verbosity },
    },
  };
}

const PARAMETERS: Readonly<Record<string, string>> = {
  reasoning_effort: "reasoning.effort",
  verbosity: "text.verbosity",
};

function renamed(error: unknown): unknown {
  const reported = error instanceof HttpError ? toApiError(error) : error;
  const param = reported instanceof ApiError && PARAMETERS[reported.details.param ?? ""];
  if (!(reported instanceof ApiError) || !param) return error;
  return new ApiError(reported.status, reported.message, { ...reported.details, param });
}

async function findPrevious(id: string, { store }: AsModelOptions): Promise<StoredResponse> {
  const stored = await findResponse(store, id);
  if (stored) return stored;
  throw new ApiError(400, `Cannot follow response ${JSON.stringify(id)}: it isn't stored.`, {
    code: "previous_response_not_found",
    param: "previous_response_id",
  });
}

/**
 * Yields a turn's events: the first after the model's first output, the last after the response is stored.
 * @throws {ApiError} if the turn fails, after `response.failed` if there was output.
 */
async function* responseEvents(
  turn: ConversationTurn,
  { writer, input, now }: {
    readonly writer: ResponseEventWriter;
    readonly input: readonly JsonRecord[];
    readonly now: () => number;
  },
): AsyncGenerator<ResponseEvent, void> {
  let part = await turn.parts.next().catch((error) => Promise.reject(renamed(error)));
  yield* writer.begin();
  try {
    for (; !part.done; part = await turn.parts.next()) yield* writer.add(part.value);
  } catch (error) {
    yield* writer.fail(toApiError(error));
    throw error;
  }
  const { calls, finish, ledger: usage } = part.value;
  const last = writer.end({ finish, calls, usage, endedAtMs: now() });
  const { response } = writer;
  const stored = response.store ? [storedResponse({ response, point: await turn.done, input })] : [];
  await turn.remember(part.value, stored);
  yield* last;
}

async function* toSse(
  events: AsyncIterable<ResponseEvent>,
  onError: (error: unknown) => void,
): AsyncGenerator<SseMessage, void> {
  let begun = false;
  try {
    for await (const event of events) {
      begun = true;
      yield { event: event.type, data: JSON.stringify(event) };
    }
  } catch (error) {
    if (!begun) throw error;
    // `response.failed` has reported it.
    streamError(error, onError);
  }
}

/**
 * Reads `input` and `instructions`. References to stored items are resolved; reasoning is omitted, because the agent
 * stores its own.
 * @param options.previous The response that it follows, if any.
 * @throws {ApiError} 400 for unsupported items, and calls or results without their counterpart; 404 for a missing
 * item.
 */
export async function readResponseInput(
  { input, instructions }: ResponsesRequest,
  { store, previous }: { readonly store: Store; readonly previous?: ResponseBody | undefined },
): Promise<Dialogue> {
  const messages: ChatMessage[] = [];
  for (const [index, item] of inputItems(input).entries()) {
    const message = await readItem(item, `input[${index}]`, store);
    if (message) messages.push(message);
  }
  const open = (previous?.output ?? []).flatMap((item) =>
    item.type === "function_call" ? [item.call_id] : []
  );
  const { instructions: more, dialogue } = readChatMessages(messages, { parameter: "input", open });
  return { instructions: [instructions, more].filter(Boolean).join("\n\n"), dialogue };
}

function inputItems(input: ResponsesRequest["input"]): readonly InputItem[] {
  return typeof input === "string" ? [{ type: "message", role: "user", content: input }] : input;
}

async function readItem(
  { type, role, content = "", id, call_id = "", name = "", arguments: text = "", output = "" }: InputItem,
  parameter: string,
  store: Store,
): Promise<ChatMessage | undefined> {
  switch (type ?? (role ? "message" : "item_reference")) {
    case "message":
      if (!role) throw unusable(parameter, "a message needs a role");
      if (role === "user" && content.length === 0) throw unusable(parameter, "the user's message is empty");
      return { role, content: typeof content === "string" ? content : content.map(partReader(parameter)) };
    case "item_reference":
      return await readReference(id ?? "", store);
    case "function_call":
      return calling({ call_id, name, arguments: text });
    case "function_call_output":
      return {
        role: "tool",
        tool_call_id: call_id,
        content: typeof output === "string" ? output : output.map(partReader(parameter)),
      };
    case "reasoning":
      return undefined;
    default:
      throw unsupported(
        parameter,
        `it is of type ${type}, and the agent accepts messages, functions' calls and results`,
      );
  }
}

function partReader(parameter: string): (part: InputPart) => ContentPart {
  return (part) => {
    switch (part.type) {
      case "input_text":
      case "output_text":
        return { type: "text", text: part.text };
      case "refusal":
        return { type: "refusal", refusal: part.refusal };
      case "input_image": {
        const { image_url: url, detail } = part;
        if (!url) throw unusable(parameter, "an image needs an image_url, which may be a data URL");
        return { type: "image_url", image_url: { url, ...(detail && { detail }) } };
      }
      case "input_file": {
        const { file_data, file_id, file_url, filename } = part;
        if (file_url) throw unusable(parameter, "a file needs file_data or file_id, not a file_url");
        return {
          type: "file",
          file: {
            ...(file_data && { file_data }),
            ...(file_id && { file_id }),
            ...(filename && { filename }),
          },
        };
      }
    }
  };
}

async function readReference(id: string, store: Store): Promise<ChatMessage | undefined> {
  const stored = await findResponse(store, `resp_${ResponseEventWriter.hexOf(id)}`);
  const item = stored?.response.output.find((one) => one.id === id);
  if (!item) {
    throw new ApiError(404, `Cannot find item ${JSON.stringify(id)}: no stored response contains it.`, {
      code: "item_not_found",
      param: "input",
    });
  }
  if (item.type === "reasoning") return undefined;
  if (item.type === "function_call") return calling(item);
  return { role: "assistant", content: item.content.map(({ text }) => text).join("") };
}

function calling(
  { call_id: id, name, arguments: text }: Pick<
    Extract<ResponseBody["output"][number], { readonly type: "function_call" }>,
    "call_id" | "name" | "arguments"
  >,
): ChatMessage {
  return {
    role: "assistant",
    tool_calls: [{ id, type: "function", function: { name, arguments: text } }],
  };
}
