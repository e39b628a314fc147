import type { SessionDocuments } from "@tare/store";
import type { ConversationPoint } from "./conversation_index.ts";
import type { ResponseBody } from "./openai_response.ts";

/** A response that can be read later and be followed. */
export interface StoredResponse {
  /** The response. */
  readonly response: ResponseBody;
  /** Where its session stood after it. */
  readonly point: ConversationPoint;
}

const KIND = "response";

/** Keeps a response, as a document of the kind `response`. */
export function storeResponse(
  documents: SessionDocuments,
  { response, point: { sessionId, messages } }: StoredResponse,
): void {
  documents.put({ kind: KIND, id: response.id, sessionId, value: { response, messages } });
}

/** The stored response of this name, or nothing if there is none. */
export function findResponse(documents: SessionDocuments, id: string): StoredResponse | undefined {
  const document = documents.get(KIND, id);
  if (!document) return undefined;
  const { response, messages } = document.value as {
    readonly response: ResponseBody;
    readonly messages: number;
  };
  return { response, point: { sessionId: document.sessionId, messages } };
}
