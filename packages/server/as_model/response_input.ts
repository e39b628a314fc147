import type { ContentPart } from "@tare/messages";
import type { Store } from "@tare/conversation";
import { ApiError, type FunctionCallItem, type ResponseBody, responseHex } from "@tare/wire";
import type { ChatMessage } from "./chat_completions_schema.ts";
import { type Dialogue, readChatMessages } from "./chat_messages.ts";
import type { InputItem, InputPart, ResponsesRequest } from "./responses_schema.ts";
import { findResponse } from "./stored_response.ts";
import { unsupported } from "./unsupported.ts";

/**
 * Reads the `input` and `instructions` of a request for a response. References to items of stored responses are looked
 * up; reasoning is left out, because the agent keeps its own.
 *
 * @param options.previous The response that it follows, if it does.
 * @throws {ApiError} 400 for items that the agent can't take, a call without its result, or a result without its call;
 * 404 for a reference to an item that isn't there.
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

/** The items of an `input`. */
export function inputItems(input: ResponsesRequest["input"]): readonly InputItem[] {
  return typeof input === "string" ? [{ type: "message", role: "user", content: input }] : input;
}

async function readItem(
  { type, role, content = "", id, call_id = "", name = "", arguments: text = "", output = "" }: InputItem,
  parameter: string,
  store: Store,
): Promise<ChatMessage | undefined> {
  switch (type ?? (role ? "message" : "item_reference")) {
    case "message":
      if (!role) throw invalid(parameter, "a message needs a role");
      if (role === "user" && content.length === 0) throw invalid(parameter, "the user says nothing");
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
        `it is of type ${type}, and the agent takes messages, functions' calls and results`,
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
        if (!url) throw invalid(parameter, "an image needs an image_url, which may be a data URL");
        return { type: "image_url", image_url: { url, ...(detail && { detail }) } };
      }
      case "input_file": {
        const { file_data, file_id, file_url, filename } = part;
        if (file_url) throw invalid(parameter, "a file needs file_data or file_id, not a file_url");
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
  const stored = await findResponse(store, `resp_${responseHex(id)}`);
  const item = stored?.response.output.find((one) => one.id === id);
  if (!item) {
    throw new ApiError(404, `Cannot find item ${JSON.stringify(id)}: no stored response has it.`, {
      code: "item_not_found",
      param: "input",
    });
  }
  if (item.type === "reasoning") return undefined;
  if (item.type === "function_call") return calling(item);
  return { role: "assistant", content: item.content.map(({ text }) => text).join("") };
}

function calling(
  { call_id: id, name, arguments: text }: Pick<FunctionCallItem, "call_id" | "name" | "arguments">,
): ChatMessage {
  return {
    role: "assistant",
    tool_calls: [{ id, type: "function", function: { name, arguments: text } }],
  };
}

function invalid(parameter: string, state: string): ApiError {
  return new ApiError(400, `Cannot use ${parameter}: ${state}.`, {
    code: "invalid_request",
    param: parameter,
  });
}
