import type { PinReport, PromptReport } from "@tare/session/internal/report";
import { api } from "./api.ts";
import { type Head, headOf } from "./sessions.ts";

/** A session of the agent, or one of the gateway's. */
export interface Subject {
  readonly kind: "session" | "gateway";
  readonly id: string;
}

export async function readHead({ id }: Subject): Promise<Head> {
  return headOf(await api.json("GET /sessions/{id}", { path: { id } }));
}

export async function readPrompt({ id }: Subject): Promise<PromptReport> {
  const blocks: PromptReport["blocks"][number][] = [];
  for (;;) {
    const query = { limit: 10_000, from: blocks.length };
    const page = await api.json("GET /sessions/{id}/prompt", { path: { id }, query });
    blocks.push(...page.blocks);
    if (!page.hasMore || page.blocks.length === 0) return { ...page, blocks };
  }
}

/** Pins a message, to retain (or restore) or evict it; without `wish`, removes the pin. */
export async function pin({ id }: Subject, place: number, wish?: PinReport["wish"]): Promise<void> {
  if (wish) await api.json("POST /sessions/{id}/pins", { path: { id }, body: { place, wish } });
  else await api.send("DELETE /sessions/{id}/pins/{place}", { path: { id, place: String(place) } });
}
