import type { Store, StoreRecord } from "@tare/conversation";
import type { JsonRecord, ResponseBody } from "@tare/wire";
import type { ConversationPoint } from "./known_conversations.ts";
import { Type } from "typebox";
import { COUNT, storedReader } from "../http/schema.ts";
import { type InputItem, RESPONSE } from "./responses_schema.ts";

/** A response that can be read later and be followed. */
export interface StoredResponse {
  readonly response: ResponseBody;
  /** Where its session stood after it. */
  readonly point: ConversationPoint;
  /** What its request brought; absent of one that was stored before that was kept. */
  readonly input?: readonly JsonRecord[] | undefined;
}

const KIND = "response";

const readStored = storedReader(
  Type.Object({
    response: Type.Unsafe<ResponseBody>(RESPONSE),
    messages: COUNT,
    input: Type.Optional(Type.Array(Type.Unsafe<JsonRecord>(Type.Object({})))),
  }),
  "a response",
);

/** The record that keeps a response. */
export function storedResponse(
  { response, point: { sessionId, messages }, input }: StoredResponse,
): StoreRecord {
  return { type: "document", kind: KIND, id: response.id, sessionId, value: { response, messages, input } };
}

/** The record that forgets a response: its session stays. */
export function deletedResponse({ response, point: { sessionId } }: StoredResponse): StoreRecord {
  return { type: "document", kind: KIND, id: response.id, sessionId, value: null };
}

/** The stored response of this name, or nothing if there is none. */
export async function findResponse(store: Store, id: string): Promise<StoredResponse | undefined> {
  const document = await store.getDocument(KIND, id);
  if (!document?.value) return undefined;
  const { response, messages, input } = readStored(document.value);
  return { response, point: { sessionId: document.sessionId, messages }, input };
}

/** The items of a request as they are listed later: each with a name, messages with their parts. */
export function listedItems(items: readonly InputItem[], hex: string): readonly JsonRecord[] {
  return items.map((item, index): JsonRecord => {
    const { content } = item;
    const kind = item.role === "assistant" ? "output_text" : "input_text";
    const type = item.type ?? (item.role ? "message" : "item_reference");
    return {
      ...item,
      id: item.id ?? `in_${hex}_${index}`,
      type,
      ...(type === "message" && {
        status: "completed",
        content: typeof content === "string" ? [{ type: kind, text: content }] : content ?? [],
      }),
    };
  });
}
