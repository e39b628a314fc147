import { Buffer } from "node:buffer";
import { columnText, jsonText, nameIn } from "../json_text.ts";
import type { ConversationStore, FoundConversation } from "../conversation_store.ts";
import type { Value } from "./connections.ts";
import { archivedText } from "./records.ts";

/** Conversations that one statement forgets. */
const SLICE = 50;

/** The conversations in a database, which any number of openings save. */
export function conversationsIn(
  { query, unpack, now }: {
    readonly query: <Row>(sql: string, values: readonly Value[]) => Promise<Row[]>;
    readonly unpack: (zstd: Uint8Array, ref: string) => string;
    readonly now: () => number;
  },
): ConversationStore {
  return {
    isShared: true,
    async find(names, limit = 16) {
      const rows = await query<FoundConversation>(
        `SELECT c.id, c.version FROM unnest($1::text[]) WITH ORDINALITY AS wanted (name, place)
           JOIN tare.conversation_names n USING (name) JOIN tare.conversations c ON c.key = n.conversation
         GROUP BY c.key ORDER BY min(wanted.place), c.saved DESC LIMIT $2`,
        [names.map(columnText), limit],
      );
      return rows.map(({ id, version }) => ({ id: nameIn(id), version }));
    },
    async load(id) {
      const [row] = await query<{ version: number; json: string }>(
        "SELECT version, json FROM tare.conversations WHERE id = $1",
        [columnText(id)],
      );
      return row && { id, version: row.version, value: JSON.parse(row.json) };
    },
    async save({ id, names, value, texts = [], parent }) {
      const packed = texts.toSorted((a, b) => a.ref < b.ref ? -1 : 1).map(({ ref, content }) => {
        const { sha256, zstd } = archivedText(content);
        return { ref, sha256: base64Of(sha256), zstd: base64Of(zstd) };
      });
      const [row] = await query<{ version: number }>(
        "SELECT tare.save_conversation($1, $2, $3, $4, $5, $6::uuid, $7::bigint) AS version",
        [
          ...[columnText(id), jsonText(value), names.map(columnText), JSON.stringify(packed)],
          parent === undefined ? null : columnText(parent),
          ...[crypto.randomUUID(), Math.floor(now())],
        ],
      );
      return row!.version;
    },
    async texts(id, refs) {
      const rows = await query<{ ref: string; zstd: Uint8Array }>(
        `SELECT t.ref, t.zstd FROM tare.conversations c JOIN tare.conversation_texts k ON k.conversation = c.key
           JOIN tare.texts t ON t.ref = k.ref WHERE c.id = $1 AND k.ref = ANY ($2)`,
        [columnText(id), refs.map(columnText)],
      );
      return new Map(rows.map(({ ref, zstd }) => [ref, unpack(zstd, ref)]));
    },
    async expire({ beforeMs, maxBytes }) {
      const limits = [Math.floor(beforeMs), Math.min(Number.MAX_SAFE_INTEGER, Math.floor(maxBytes)), SLICE];
      for (let expired = 0;;) {
        const [row] = await query<{ count: number }>(
          "SELECT tare.expire_conversations($1::bigint, $2::bigint, $3::integer) AS count",
          limits,
        );
        if (!row || row.count === 0) return expired;
        expired += row.count;
      }
    },
  };
}

function base64Of(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("base64");
}
