/**
 * What agent server and gateway share around a conversation.
 *
 * - {@linkcode Session} is one, whoever's loop leads it: what its model sees, what was asked for of single
 *   messages, and what its calls came to.
 * - {@linkcode Store} is where conversations are kept: events, state, archived texts, documents and idempotency keys.
 *   One {@linkcode Store.commit} writes several records, all or none.
 * - `openStore()` of `@tare/session/sqlite` keeps everything in one file, `memoryStore()` in memory, for tests and
 *   trials, `openPostgresStore()` of `@tare/session/postgres` in a database that several processes have open, with
 *   large texts in a bucket by `openS3Objects()` of `@tare/session/s3`.
 * - {@linkcode copyContents} copies all that one store holds into another, of another kind too.
 * - {@linkcode Keys} says who asks, what they may, and what they have spent.
 * - {@linkcode Warmth} keeps the prefixes of idle conversations warm, as far as somebody has consented to pay for it.
 * - {@linkcode openFileArchive} keeps archived texts alone, each in a file of its own, for those who have a loop and a
 *   history of theirs.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { Session } from "@tare/session";
 * import { estimateTokens } from "@tare/messages";
 * import { plannerSession, profileNamed } from "@tare/planner";
 * import { memoryArchive } from "@tare/prune";
 *
 * const archive = memoryArchive();
 * const countTokens = estimateTokens;
 * const prompts = plannerSession({ profile: profileNamed("openai"), archive, countTokens });
 * const session = new Session({ id: "c1", archive, prompts, countTokens });
 *
 * const messages = [{ role: "user", content: "Hello." }] as const;
 * session.named("Hello.");
 * const view = await session.view({ messages, tools: [] }, { nowMs: Date.now() });
 * // Here view.messages and view.tools are sent.
 * session.sent({ promptTokens: 9, cachedTokens: 0, outputTokens: 2 }, view);
 * session.book({ calls: 1, promptTokens: 9, outputTokens: 2 }, Date.now());
 * assertEquals([view.messages, session.state.title], [messages, "Hello."]);
 * ```
 *
 * @module
 */
export {
  type CallPlanner,
  type PinChange,
  Session,
  type SessionCall,
  type SessionInit,
  type SessionPin,
  type SessionState,
} from "./session.ts";

export {
  type Asker,
  type KeyRefusal,
  type KeyReport,
  Keys,
  type KeysOptions,
  type Reservation,
} from "./keys.ts";
export { type ContentsSum, copyContents, type StoreContents } from "./store/contents.ts";
export { openFileArchive } from "./store/file_archive.ts";
export type { Store } from "./store/port.ts";
export { StoreError } from "./store/store_error.ts";
export { Warmth, type WarmthOptions } from "./warmth.ts";
