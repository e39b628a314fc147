import type { SessionDocuments } from "@tare/store";

/**
 * Documents in memory, of at most `maxChars` UTF-16 code units of JSON together: the least recently used ones are
 * forgotten. Default: 32 Mi, which is up to 64 MiB.
 */
export function memoryDocuments(
  { maxChars = 32 * 2 ** 20 }: { readonly maxChars?: number } = {},
): SessionDocuments {
  // A map keeps its keys in the order in which they were set: the least recently used first.
  const documents = new Map<string, string>();
  let chars = 0;

  const take = (name: string): string | undefined => {
    const json = documents.get(name);
    if (json !== undefined) chars -= name.length + json.length;
    documents.delete(name);
    return json;
  };
  const keep = (name: string, json: string) => {
    take(name);
    documents.set(name, json);
    chars += name.length + json.length;
    for (const oldest of documents.keys()) {
      if (chars <= maxChars) break;
      take(oldest);
    }
  };

  return {
    put: (document) => keep(nameOf(document.kind, document.id), JSON.stringify(document)),
    get(kind, id) {
      const name = nameOf(kind, id);
      const json = take(name);
      if (json === undefined) return undefined;
      keep(name, json);
      return JSON.parse(json);
    },
  };
}

function nameOf(kind: string, id: string): string {
  return `${kind} ${id}`;
}
