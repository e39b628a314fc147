import type { Store, StoreRecord } from "@tare/store";
import type { ResponseBody } from "@tare/wire";
import type { ConversationPoint } from "./known_conversations.ts";

/** A response that can be read later and be followed. */
export interface StoredResponse {
  readonly response: ResponseBody;
  /** Where its session stood after it. */
  readonly point: ConversationPoint;
}

const KIND = "response";

/** The record that keeps a response. */
export function storedResponse({ response, point: { sessionId, messages } }: StoredResponse): StoreRecord {
  return { type: "document", kind: KIND, id: response.id, sessionId, value: { response, messages } };
}

/** The stored response of this name, or nothing if there is none. */
export async function findResponse(store: Store, id: string): Promise<StoredResponse | undefined> {
  const document = await store.getDocument(KIND, id);
  if (!document) return undefined;
  const { response, messages } = document.value as {
    readonly response: ResponseBody;
    readonly messages: number;
  };
  return { response, point: { sessionId: document.sessionId, messages } };
}
