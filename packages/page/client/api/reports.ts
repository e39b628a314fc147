import type {
  BlockReport,
  CallReport,
  Overview,
  PinReport,
  PromptBlock,
  PromptReport,
} from "@tare/conversation/report";
import { ask, askJson } from "./api.ts";
import { type Session, titleOf } from "./sessions.ts";

/** A session of the agent, or one of the gateway's. */
export interface Subject {
  readonly kind: "session" | "gateway";
  readonly id: string;
}

function pathOf({ kind, id }: Subject): string {
  return `${kind === "session" ? "/v1/sessions" : "/v1/gateway/sessions"}/${encodeURIComponent(id)}`;
}

/** What a session is called: a gateway's by its model and when it began. */
export async function readTitle(subject: Subject): Promise<string> {
  if (subject.kind === "session") return titleOf(await askJson<Session>(pathOf(subject)));
  const { model, startedAt } = await askJson<{ readonly model: string; readonly startedAt: string }>(
    pathOf(subject),
  );
  return `${model}, ${new Date(startedAt).toLocaleString("en-GB")}`;
}

/** All calls of a session, the oldest first. */
export async function readCalls(subject: Subject): Promise<readonly CallReport[]> {
  const calls: CallReport[] = [];
  for (let hasMore = true; hasMore;) {
    const after = calls.at(-1)?.number ?? 0;
    const page = await askJson<{ readonly calls: readonly CallReport[]; readonly hasMore: boolean }>(
      `${pathOf(subject)}/calls?limit=10000&after=${after}`,
    );
    calls.push(...page.calls);
    hasMore = page.hasMore && page.calls.length > 0;
  }
  return calls;
}

/** The prompt as the model sees it, block by block. */
export async function readPrompt(subject: Subject): Promise<PromptReport> {
  const blocks: PromptBlock[] = [];
  for (;;) {
    const page = await askJson<PromptReport>(`${pathOf(subject)}/prompt?limit=10000&from=${blocks.length}`);
    blocks.push(...page.blocks);
    if (!page.hasMore || page.blocks.length === 0) return { ...page, blocks };
  }
}

/** A block with the beginning of its texts. */
export async function readBlock(subject: Subject, id: string): Promise<BlockReport> {
  return await askJson(`${pathOf(subject)}/prompt/${encodeURIComponent(id)}`);
}

/** Asks that a message comes back and stays, or that a result leaves; without a wish, takes back what was asked. */
export async function pin(subject: Subject, place: number, wish?: PinReport["wish"]): Promise<void> {
  const path = `${pathOf(subject)}/pins`;
  if (wish) await ask(path, { body: { place, wish } });
  else await ask(`${path}/${place}`, { method: "DELETE" });
}

/** What the sessions of the agent have saved, or those of the gateway. */
export async function readOverview(kind: Subject["kind"]): Promise<Overview> {
  return await askJson(kind === "session" ? "/v1/overview" : "/v1/gateway/overview");
}
