import { EMPTY_LEDGER, type TurnEnd } from "@tare/loop";
import type { Content } from "@tare/messages";
import type { NumberedEvent, SessionEvent } from "@tare/server";
import type { AgentClient, Approval, ApprovalAnswer } from "../agent_client.ts";
import { serverAway } from "../server_away.ts";

/** The signals that stop who watches; a terminal that closes hangs up. */
export const STOPPING: readonly Deno.Signal[] = Deno.build.os === "windows"
  ? ["SIGINT"]
  : ["SIGINT", "SIGTERM", "SIGHUP"];

/** Asks a person whether a call may run; nothing if there is no answer, or the signal says that it is settled. */
export type AskPerson = (approval: Approval, signal: AbortSignal) => Promise<ApprovalAnswer | undefined>;

/** A turn that a person watches. */
export interface WatchedTurn {
  /**
   * How it ended. If it can't be watched to its end it is cancelled, as far as the server can be reached.
   *
   * @throws {Error} with a sentence for people if the server refuses it or breaks off, and what `show` throws.
   */
  readonly end: Promise<TurnEnd>;
  /** Cancels it, also while the request is still on its way. @throws {Error} if the server can't be told. */
  readonly cancel: () => Promise<void>;
}

/**
 * Starts a turn, or without an input goes on with one that asks, and shows its events as they come. One that asks goes on once `ask`, or somebody else, has answered;
 * without `ask` nobody is asked, and it goes by the server's setting.
 */
export function watchTurn(
  client: Pick<AgentClient, "startTurn" | "cancel" | "follow" | "approvals" | "answer">,
  { session, input, after = 0, effort, leavesNow = false, show, ask, tryAgainMs }: {
    readonly session: string;
    readonly input?: Content;
    /** Without an input: number of the event behind which the turn is shown. */
    readonly after?: number;
    /** Whether all that may leave the prompt leaves with it. Default: what pays. */
    readonly leavesNow?: boolean;
    /** How much the model shall reason. Default: as the session says. */
    readonly effort?: string | undefined;
    readonly show: (event: SessionEvent) => void;
    readonly ask?: AskPerson | undefined;
    /** How long after a look a server that has broken off is looked for again. Default: a second, a minute long. */
    readonly tryAgainMs?: number;
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
  /** Number of the last event shown. */
  let last = after;
  let isOver = false;

  const tell = (message: string) => show({ type: "warning", message });

  /** Asks a server that may be away. Default: that it is, is told where its events are read. */
  const whenThere = async <T>(
    work: () => Promise<T>,
    told: (message: string) => void = () => {},
  ): Promise<T> => {
    const away = serverAway({ tell: told, tryAgainMs });
    for (;;) {
      try {
        return await work();
      } catch (error) {
        await away.wait(error);
      }
    }
  };

  const started = Promise.resolve().then(start);
  const put = async (approval: Approval) => {
    const settled = questions.get(approval.id)?.signal;
    const answer = settled && await ask?.(approval, settled);
    if (!answer || settled.aborted) return;
    await whenThere(() => client.answer(session, approval, answer)).catch(async (error) => {
      // Somebody else may have been quicker.
      const open = await whenThere(() => client.approvals(session));
      if (open.some(({ id }) => id === approval.id)) throw error;
    });
  };
  const putAll = async () => {
    const asked = new Set<string>();
    for (;;) {
      // Somebody else may have answered meanwhile.
      const next = (await whenThere(() => client.approvals(session))).find(({ id }) => !asked.has(id));
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
  /** Reads on where the server breaks off in the middle of the turn: it goes on with it once it is there again. */
  const readOn = async (events: () => Promise<AsyncIterable<NumberedEvent>>) => {
    const away = serverAway({ tell, tryAgainMs });
    for (let from = events;; from = () => client.follow(session, last)) {
      const before = last;
      try {
        return await read(await from());
      } catch (error) {
        if (last > before) away.heard();
        if (last === 0) throw error;
        await away.wait(error);
      }
    }
  };
  const watch = async (): Promise<TurnEnd> => {
    await readOn(() => started);
    while (ask && (end ? end.reason === "approval" : input === undefined)) {
      const before = last;
      await readOn(() => client.follow(session, last));
      if (last > before && end?.reason !== "approval") continue;
      // The stream ends where nothing is asked any more, and nothing goes on: somebody has cancelled. So does that of a
      // server which ends; what it has asked stays asked.
      const open = await whenThere(() => client.approvals(session), tell);
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
