import type { TurnEnd } from "@tare/loop";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import type { Content } from "@tare/messages";
import type { SessionEvent } from "@tare/server";
import type { NumberedEvent } from "@tare/server/internal";
import { type AgentClient, type Approval, type ApprovalAnswer, AWAY, Reconnection } from "../agent_client.ts";

/** Signals that stop a command that watches a turn; closing the terminal sends SIGHUP. */
export const STOPPING: readonly Deno.Signal[] = Deno.build.os === "windows"
  ? ["SIGINT"]
  : ["SIGINT", "SIGTERM", "SIGHUP"];

/** Requests approval of a call; undefined without an answer, or once `signal` reports that it is settled. */
export type AskPerson = (approval: Approval, signal: AbortSignal) => Promise<ApprovalAnswer | undefined>;

export interface WatchedTurn {
  /**
   * The turn's end. A turn that can't be followed to its end is cancelled.
   *
   * @throws {Error} with a sentence for users if the server refuses it or breaks off, and what `show` throws.
   */
  readonly end: Promise<TurnEnd>;
  /** Cancels it, also while the request is under way. @throws {Error} if the server can't be reached. */
  readonly cancel: () => Promise<void>;
}

/**
 * Starts a turn, or without an input continues one that waits for approval, and shows its events. A turn that waits
 * continues once `ask` or another client has answered; without `ask` the server's setting decides.
 */
export function watchTurn(
  client: Pick<AgentClient, "startTurn" | "cancel" | "follow" | "approvals" | "answer">,
  { session, input, after = 0, effort, leavesNow = false, show, ask, maxPauseMs }: {
    readonly session: string;
    readonly input?: Content;
    /** Without an input: number of the event after which the turn is shown. */
    readonly after?: number;
    /** Whether everything that may be evicted is evicted with it. Default: what pays off. */
    readonly leavesNow?: boolean;
    /** Reasoning effort. Default: the session's. */
    readonly effort?: string | undefined;
    readonly show: (event: SessionEvent) => void;
    readonly ask?: AskPerson | undefined;
    /** Longest pause between two attempts to reach the server. */
    readonly maxPauseMs?: number;
  },
): WatchedTurn {
  const start = async () => {
    if (input !== undefined) {
      return await client.startTurn(session, input, { unattended: ask === undefined, effort, leavesNow });
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
  // `connection` reports the same outage.
  const quiet = new Reconnection({ onAway() {}, maxPauseMs });

  const started = Promise.resolve().then(start);
  const put = async (approval: Approval) => {
    const settled = questions.get(approval.id)?.signal;
    const answer = settled && await ask?.(approval, settled);
    if (!answer || settled.aborted) return;
    await quiet.retry(() => client.answer(session, approval, answer)).catch(async (error) => {
      // Another client may have answered.
      const open = await quiet.retry(() => client.approvals(session));
      if (open.some(({ id }) => id === approval.id)) throw error;
    });
  };
  const putAll = async () => {
    const asked = new Set<string>();
    for (;;) {
      // Another client may have answered meanwhile.
      const next = (await quiet.retry(() => client.approvals(session))).find(({ id }) => !asked.has(id));
      if (!next) return;
      asked.add(next.id);
      await put(next);
    }
  };
  /** Shows events up to the turn's last, or to the end of the stream. */
  const read = async (events: AsyncIterable<NumberedEvent>) => {
    for await (const { number, event } of events) {
      last = number;
      if (event.type === "turn_start") end = undefined;
      if (event.type === "turn_end") end = event;
      if (event.type === "approval_asked") questions.set(event.approvalId ?? "", new AbortController());
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
      // The stream ends if the turn was cancelled, and if the server shuts down; then its approvals stay pending.
      const open = await connection.retry(() => client.approvals(session));
      if (open.length === 0) return { text: "", ledger: EMPTY_LEDGER, ...end, reason: "cancelled" };
    }
    if (end === undefined) throw new Error("The server closed the stream before the turn's end.");
    return end;
  };
  const cancel = async () => {
    // Until the server has answered it may have nothing to cancel yet, and begin the turn afterwards.
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
