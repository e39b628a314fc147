import type { TurnEnd } from "@tare/loop";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import type { Content } from "@tare/messages";
import type { SessionEvent } from "@tare/server";
import type { NumberedEvent } from "@tare/server/internal";
import { type AgentClient, type Approval, type ApprovalAnswer, AWAY, Reconnection } from "../agent_client.ts";

export const STOPPING: readonly Deno.Signal[] = Deno.build.os === "windows"
  ? ["SIGINT"]
  : ["SIGINT", "SIGTERM", "SIGHUP"];

/** Requests approval of a call. Resolves to undefined without an answer, or once `signal` is aborted. */
export type AskUser = (approval: Approval, signal: AbortSignal) => Promise<ApprovalAnswer | undefined>;

export interface WatchedTurn {
  /**
   * End of the turn, which is cancelled if it can't be followed. Rejects if the server refuses the turn, the stream
   * fails or `show` throws.
   */
  readonly end: Promise<TurnEnd>;
  /** Cancels the turn, even before the server has accepted it. @throws {Error} if the server can't be reached. */
  readonly cancel: () => Promise<void>;
}

/**
 * Starts a turn, or without `input` follows one, and shows its events. A turn that waits for approval continues once
 * `ask` or another client has answered; without `ask` it runs unattended.
 */
export function watchTurn(
  client: Pick<AgentClient, "startTurn" | "cancel" | "follow" | "approvals" | "answer">,
  { session, input, after = 0, effort, evictNow = false, show, ask, maxPauseMs }: {
    readonly session: string;
    readonly input?: Content;
    /** Number of the last known event, without `input`. Default: 0. */
    readonly after?: number;
    /** Whether to evict everything that may be evicted. Default: false. */
    readonly evictNow?: boolean;
    readonly effort?: string | undefined;
    readonly show: (event: SessionEvent) => void;
    readonly ask?: AskUser | undefined;
    /** Longest pause between two attempts to reach the server, in milliseconds. */
    readonly maxPauseMs?: number;
  },
): WatchedTurn {
  const start = async () => {
    if (input !== undefined) {
      return await client.startTurn(session, input, { unattended: ask === undefined, effort, evictNow });
    }
    const events = await client.follow(session, after);
    for (const { id } of await client.approvals(session)) questions.set(id, new AbortController());
    putAll().catch((error) => failure.reject(error));
    return events;
  };
  const questions = new Map<string, AbortController>();
  const failure = Promise.withResolvers<never>();
  failure.promise.catch(() => {});
  let end: TurnEnd | undefined;
  let last = after;
  let isOver = false;

  const connection = new Reconnection({ onAway: () => show({ type: "warning", message: AWAY }), maxPauseMs });
  const quiet = new Reconnection({ onAway() {}, maxPauseMs });

  const started = Promise.resolve().then(start);
  const put = async (approval: Approval) => {
    const settled = questions.get(approval.id)?.signal;
    const answer = settled && await ask?.(approval, settled);
    if (!answer || settled.aborted) return;
    await quiet.retry(() => client.answer(session, approval, answer)).catch(async (error) => {
      const open = await quiet.retry(() => client.approvals(session));
      if (open.some(({ id }) => id === approval.id)) throw error;
    });
  };
  const putAll = async () => {
    const pending = new Set<string>();
    for (;;) {
      const next = (await quiet.retry(() => client.approvals(session))).find(({ id }) => !pending.has(id));
      if (!next) return;
      pending.add(next.id);
      await put(next);
    }
  };
  const read = async (events: AsyncIterable<NumberedEvent>) => {
    for await (const { number, event } of events) {
      last = number;
      if (event.type === "turn_start") end = undefined;
      if (event.type === "turn_end") end = event;
      if (event.type === "approval_requested") questions.set(event.approvalId ?? "", new AbortController());
      if (event.type === "approval_answered") questions.get(event.approvalId)?.abort();
      show(event);
      if (event.type !== "turn_end" || !ask) continue;
      if (event.reason !== "approval") return;
      putAll().catch(failure.reject);
    }
  };
  const follow = (after: number) => client.follow(session, after);
  const watch = async (): Promise<TurnEnd> => {
    await read(connection.events(follow, { after: after || undefined, first: await started }));
    while (ask && (end ? end.reason === "approval" : input === undefined)) {
      const before = last;
      await read(connection.events(follow, { after: last }));
      if (last > before && end?.reason !== "approval") continue;
      // After a shutdown of the server, approvals stay pending.
      const open = await connection.retry(() => client.approvals(session));
      if (open.length === 0) return { text: "", ledger: EMPTY_LEDGER, ...end, reason: "cancelled" };
    }
    if (end === undefined) throw new Error("The server closed the stream before the turn's end.");
    return end;
  };
  const cancel = async () => {
    // Before the server has accepted the turn, it has nothing to cancel.
    const runs = await started.then(() => true, () => false);
    if (runs && !isOver) await client.cancel(session);
  };
  return {
    end: Promise.race([watch(), failure.promise]).catch(async (error) => {
      await cancel().catch(() => {});
      throw error;
    }).finally(() => {
      isOver = true;
      for (const settled of questions.values()) settled.abort();
    }),
    cancel,
  };
}
