import type { ConversationStore, SavedConversation } from "../conversation_store.ts";
import { jsonText } from "../json_text.ts";
import { otherTextError } from "../store_error.ts";

interface MemoryConversation {
  readonly version: number;
  readonly json: string;
  readonly names: readonly string[];
  readonly texts: ReadonlyMap<string, string>;
  readonly savedAtMs: number;
}

/** Conversations by id, those saved last at the end. */
export type MemoryConversations = Map<string, MemoryConversation>;

/** What every opening of a store in memory does with the conversations that are kept there. */
export function memoryConversations(
  conversations: MemoryConversations,
  { now, settle, isShared }: {
    readonly now: () => number;
    readonly settle: <T>(act: () => T) => Promise<T>;
    readonly isShared: boolean;
  },
): ConversationStore {
  const save = ({ id, names, value, texts = [], parent }: SavedConversation): number => {
    const before = conversations.get(id);
    const kept = new Map([...conversations.get(parent ?? "")?.texts ?? [], ...before?.texts ?? []]);
    for (const { ref, content } of texts) {
      if ((kept.get(ref) ?? content) !== content) throw otherTextError(ref);
      kept.set(ref, content);
    }
    const version = (before?.version ?? 0) + 1;
    const json = jsonText(value);
    conversations.delete(id);
    conversations.set(id, { version, json, names, texts: kept, savedAtMs: now() });
    return version;
  };
  return {
    isShared,
    find: (names, limit = 16) =>
      settle(() => {
        const placed = [...conversations].reverse().map(([id, { version, names: own }]) => ({
          place: names.findIndex((name) => own.includes(name)),
          found: { id, version },
        }));
        return placed.filter(({ place }) => place >= 0).sort((a, b) => a.place - b.place)
          .slice(0, limit).map(({ found }) => found);
      }),
    load: (id) =>
      settle(() => {
        const kept = conversations.get(id);
        return kept && { id, version: kept.version, value: JSON.parse(kept.json) };
      }),
    save: (conversation) => settle(() => save(conversation)),
    texts: (id, refs) =>
      settle(() => {
        const { texts } = conversations.get(id) ?? {};
        return new Map(refs.flatMap((ref): [string, string][] => {
          const content = texts?.get(ref);
          return content === undefined ? [] : [[ref, content]];
        }));
      }),
    expire: ({ beforeMs, maxBytes }) =>
      settle(() => {
        let bytes = 0;
        let expired = 0;
        for (const [id, { savedAtMs, json, texts }] of [...conversations].reverse()) {
          bytes += [json, ...texts.values()].reduce((sum, { length }) => sum + length, 0);
          if (savedAtMs >= beforeMs && bytes <= maxBytes) continue;
          conversations.delete(id);
          expired++;
        }
        return expired;
      }),
  };
}
