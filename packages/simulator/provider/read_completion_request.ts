import type { JsonSchema, Message, ToolDefinition } from "@tare/messages";
import { schemaChecker } from "@tare/messages/arguments";
import { ApiError } from "@tare/wire";
import { Compile } from "typebox/schema";

/** The body of a chat-completions request, as far as the simulator reads it. */
export interface CompletionRequest {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
  readonly stream: boolean;
  readonly includeUsage: boolean;
}

/**
 * Reads and checks the body of a chat-completions request, its pairs of calls and results included: a reply with
 * calls must be followed by the results of all of them, and by nothing else before.
 *
 * @throws {ApiError} with status 400 if a provider would refuse it.
 */
export async function readCompletionRequest(request: Request): Promise<CompletionRequest> {
  const body = await readJson(request);
  const fault = VALID_BODY.Check(body) ? undefined : bodyFault(body);
  if (fault !== undefined) throw new ApiError(400, `Cannot read the request: ${fault}.`);
  // The schema has shown that it has this shape.
  const { model, messages, tools, stream, stream_options } = body as RequestBody;
  checkPairs(messages);
  return {
    model,
    messages,
    tools: tools ?? [],
    stream: stream === true,
    includeUsage: stream_options?.include_usage === true,
  };
}

interface RequestBody {
  readonly model: string;
  readonly messages: readonly Message[];
  readonly tools?: readonly ToolDefinition[] | null;
  readonly stream?: boolean | null;
  readonly stream_options?: { readonly include_usage?: boolean | null } | null;
}

const TEXT: JsonSchema = { type: "string" };
const TEXT_OR_NULL: JsonSchema = { type: ["string", "null"] };

/** An object with a `type`, which says what else it must have. */
function typed(variants: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return {
    type: "object",
    required: ["type"],
    properties: { type: TEXT },
    allOf: Object.entries(variants).map(([type, properties]) => ({
      if: { properties: { type: { const: type } } },
      then: { required: Object.keys(properties), properties },
    })),
  };
}

/** An object that has these texts. */
function texts(...names: readonly string[]): JsonSchema {
  return {
    type: "object",
    required: names,
    properties: Object.fromEntries(names.map((name) => [name, TEXT])),
  };
}

/** Parts of other kinds, which providers may add, are taken as they are. */
const PART = typed({
  text: { text: TEXT },
  refusal: { refusal: TEXT },
  image_url: { image_url: texts("url") },
  input_audio: { input_audio: texts("data") },
  file: { file: { type: "object", properties: { file_data: TEXT } } },
});

const CALL: JsonSchema = {
  ...typed({
    function: { function: texts("name", "arguments") },
    custom: { custom: texts("name", "input") },
  }),
  required: ["id", "type"],
  properties: { id: TEXT, type: { enum: ["function", "custom"] } },
};

const MESSAGE: JsonSchema = {
  type: "object",
  required: ["role"],
  properties: {
    role: { enum: ["system", "developer", "user", "assistant", "tool", "function"] },
    name: TEXT,
    content: { type: ["string", "array", "null"], items: PART },
    reasoning_content: TEXT_OR_NULL,
    refusal: TEXT_OR_NULL,
    tool_calls: { type: ["array", "null"], minItems: 1, items: CALL },
    tool_call_id: TEXT,
  },
  if: { properties: { role: { const: "assistant" } } },
  else: { required: ["content"] },
  allOf: [{ if: { properties: { role: { const: "tool" } } }, then: { required: ["tool_call_id"] } }],
};

const TOOL: JsonSchema = {
  type: "object",
  required: ["type", "function"],
  properties: {
    type: { const: "function" },
    function: {
      type: "object",
      required: ["name"],
      properties: {
        name: { type: "string", minLength: 1 },
        description: TEXT,
        parameters: { type: "object" },
      },
    },
  },
};

const BODY: JsonSchema = {
  type: "object",
  required: ["model", "messages"],
  properties: {
    model: { type: "string", minLength: 1 },
    messages: { type: "array", minItems: 1, items: MESSAGE },
    tools: { type: ["array", "null"], items: TOOL },
    stream: { type: ["boolean", "null"] },
    stream_options: {
      type: ["object", "null"],
      properties: { include_usage: { type: ["boolean", "null"] } },
    },
    n: { enum: [1, null] },
  },
};

const bodyFault = schemaChecker(BODY, "the body");
const VALID_BODY = Compile(BODY);

async function readJson(request: Request): Promise<unknown> {
  try {
    return await request.json();
  } catch (cause) {
    throw new ApiError(400, `Cannot read the request: its body is not JSON (${(cause as Error).message}).`);
  }
}

/**
 * Checks that each call is answered right behind the message that makes it.
 *
 * Pending ids are a list, not a set: some clients use an id twice, or an empty one for each call.
 *
 * @throws {ApiError} with status 400 if one isn't.
 */
export function checkPairs(messages: readonly Message[]): void {
  let pending: string[] = [];
  const refusePending = (index: number) => {
    if (pending.length === 0) return;
    throw new ApiError(
      400,
      "An assistant message with 'tool_calls' must be followed by a tool message for each 'tool_call_id'; " +
        `without a response: ${pending.join(", ")}.`,
      { param: `messages.[${index}].role` },
    );
  };
  messages.forEach((message, index) => {
    if (message.role === "tool") {
      const answered = pending.indexOf(message.tool_call_id);
      if (answered < 0) {
        throw new ApiError(
          400,
          "A message with role 'tool' must be a response to a preceding message with 'tool_calls'; " +
            `none is open with the id ${JSON.stringify(message.tool_call_id)}.`,
          { param: `messages.[${index}].role` },
        );
      }
      pending.splice(answered, 1);
      return;
    }
    refusePending(index);
    if (message.role === "assistant") pending = (message.tool_calls ?? []).map((call) => call.id);
  });
  refusePending(messages.length);
}
