import type { ConversationPoint } from "./conversation_index.ts";
import type { DocumentStore } from "./document_store.ts";
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
export async function storeResponse(
  documents: DocumentStore,
  { response, point: { sessionId, messages } }: StoredResponse,
): Promise<void> {
  const json = JSON.stringify({ response, messages });
  await documents.put({ kind: KIND, id: response.id, sessionId, json });
}

/** The stored response of this name, or nothing if there is none. */
export async function findResponse(
  documents: DocumentStore,
  id: string,
): Promise<StoredResponse | undefined> {
  const document = await documents.get(KIND, id);
  if (!document) return undefined;
  const { response, messages } = JSON.parse(document.json) as {
    readonly response: ResponseBody;
    readonly messages: number;
  };
  return { response, point: { sessionId: document.sessionId, messages } };
}
