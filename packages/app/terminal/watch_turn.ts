import type { LoopEvent, TurnEnd } from "@tare/loop";
import type { AgentClient } from "../agent_client.ts";

/** The signals that stop who watches; a terminal that closes hangs up. */
export const STOPPING: readonly Deno.Signal[] = Deno.build.os === "windows"
  ? ["SIGINT"]
  : ["SIGINT", "SIGTERM", "SIGHUP"];

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

/** Starts a turn and shows its events as they come. */
export function watchTurn(
  client: Pick<AgentClient, "startTurn" | "cancel">,
  { session, input, show }: {
    readonly session: string;
    readonly input: string;
    readonly show: (event: LoopEvent) => void;
  },
): WatchedTurn {
  const started = client.startTurn(session, input);
  let end: TurnEnd | undefined;
  const watch = async () => {
    for await (const event of await started) {
      if (event.type === "turn_end") end = event;
      show(event);
    }
    if (end === undefined) throw new Error("The server closed the stream before the turn's end.");
    return end;
  };
  const cancel = async () => {
    // Until the server has answered it may have nothing to cancel yet, and begin the turn afterwards.
    const runs = await started.then(() => true, () => false);
    if (runs && end === undefined) await client.cancel(session);
  };
  return {
    end: watch().catch(async (error) => {
      await cancel().catch(() => {});
      throw error;
    }),
    cancel,
  };
}
