import type { Asking, MissesReport, SessionSpend, SpendReport } from "../../../server/client.ts";
import type { BlockReport, CallReport, Overview, PinReport, PromptReport } from "@tare/conversation/report";
import { api } from "./api.ts";
import { type Head, headOf } from "./sessions.ts";

/** A session of the agent, or one of the gateway's. */
export interface Subject {
  readonly kind: "session" | "gateway";
  readonly id: string;
}

/** What is asked of a route. */
type Query<Name extends "GET /spend" | "GET /misses"> = NonNullable<Asking<Name>["query"]>;

/** What stands above each view of a session. */
export async function readHead({ id }: Subject): Promise<Head> {
  return headOf(await api.json("GET /sessions/{id}", { path: { id } }));
}

/** What calls have cost, over sessions. */
export async function readSpend(query: Query<"GET /spend">): Promise<SpendReport> {
  return await api.json("GET /spend", { query });
}

/** Why prompts weren't read from the cache, over sessions. */
export async function readMisses(query: Query<"GET /misses">): Promise<MissesReport> {
  return await api.json("GET /misses", { query });
}

/** What a session's calls have cost. */
export async function readSessionSpend({ id }: Subject): Promise<SessionSpend> {
  return await api.json("GET /sessions/{id}/spend", { path: { id } });
}

/** All calls of a session, the oldest first. */
export async function readCalls({ id }: Subject): Promise<readonly CallReport[]> {
  const calls: CallReport[] = [];
  for (let isMore = true; isMore;) {
    const query = { limit: 10_000, after: calls.at(-1)?.number ?? 0 };
    const page = await api.json("GET /sessions/{id}/calls", { path: { id }, query });
    calls.push(...page.calls);
    isMore = page.hasMore && page.calls.length > 0;
  }
  return calls;
}

/** The prompt as the model sees it, block by block. */
export async function readPrompt({ id }: Subject): Promise<PromptReport> {
  const blocks: PromptReport["blocks"][number][] = [];
  for (;;) {
    const query = { limit: 10_000, from: blocks.length };
    const page = await api.json("GET /sessions/{id}/prompt", { path: { id }, query });
    blocks.push(...page.blocks);
    if (!page.hasMore || page.blocks.length === 0) return { ...page, blocks };
  }
}

/** A block with the beginning of its texts. */
export async function readBlock({ id }: Subject, block: string): Promise<BlockReport> {
  return await api.json("GET /sessions/{id}/prompt/{block}", { path: { id, block } });
}

/** Asks that a message comes back and stays, or that a result leaves; without a wish, takes back what was asked. */
export async function pin({ id }: Subject, place: number, wish?: PinReport["wish"]): Promise<void> {
  if (wish) await api.json("POST /sessions/{id}/pins", { path: { id }, body: { place, wish } });
  else await api.send("DELETE /sessions/{id}/pins/{place}", { path: { id, place: String(place) } });
}

/** Keeps a session's prompt in the provider's cache for an hour. Gives until when, and what that costs at most. */
export async function keepSessionWarm(
  id: string,
): Promise<{ readonly until: string; readonly maxUsd: number }> {
  const body = { minutes: 60 };
  return await api.json("POST /sessions/{id}/keep_warm", { path: { id }, body });
}

/** What the sessions of the agent have saved, or those of the gateway. */
export async function readOverview(kind: Subject["kind"]): Promise<Overview> {
  return await api.json("GET /overview", { query: { kind: kind === "session" ? "agent" : kind } });
}
