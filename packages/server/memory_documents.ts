import type { DocumentStore, SessionDocument } from "./document_store.ts";

/**
 * Documents in memory, of at most `maxChars` UTF-16 code units together: the least recently used ones are forgotten.
 * Default: 32 Mi, which is up to 64 MiB.
 */
export function memoryDocuments(
  { maxChars = 32 * 2 ** 20 }: { readonly maxChars?: number } = {},
): DocumentStore {
  // A map keeps its keys in the order in which they were set: the least recently used first.
  const documents = new Map<string, SessionDocument>();
  let chars = 0;

  const name = (kind: string, id: string) => `${kind} ${id}`;
  const take = (key: string): SessionDocument | undefined => {
    const document = documents.get(key);
    if (document) chars -= sizeOf(document);
    documents.delete(key);
    return document;
  };
  const keep = (document: SessionDocument) => {
    const key = name(document.kind, document.id);
    take(key);
    documents.set(key, document);
    chars += sizeOf(document);
    for (const oldest of documents.keys()) {
      if (chars <= maxChars) break;
      take(oldest);
    }
  };

  return {
    put: keep,
    get(kind, id) {
      const document = take(name(kind, id));
      if (document) keep(document);
      return document;
    },
  };
}

function sizeOf({ kind, id, sessionId, json }: SessionDocument): number {
  return kind.length + id.length + sessionId.length + json.length;
}
