import { RequestError, type SessionUpdate, type StopReason } from "@agentclientprotocol/sdk";
import type { TurnEnd } from "@tare/loop";
import type { Content } from "@tare/messages";
import type { AgentClient, NumberedEvent } from "../agent_client.ts";
import { joinPieces, SessionUpdates } from "./session_updates.ts";

/** What a session tells the editor by. */
export interface Editor {
  /** Shows an update; settles once the editor's pipe has room. */
  readonly show: (session: string, update: SessionUpdate) => Promise<void>;
}

/** A turn that is followed. */
interface Followed {
  /** Settles once the server has begun it, or has refused. */
  readonly started: Promise<unknown>;
  isCancelled: boolean;
}

/** Updates that are read before they are sent on, where what was said long ago is shown again. */
const REPLAYED = 256;

/** A session of the server as an editor uses it. */
export class EditorSession {
  /** What the person is told before the next prompt's answer. */
  readonly remarks: string[] = [];
  readonly #id: string;
  readonly #client: AgentClient;
  readonly #editor: Editor;
  readonly #updates: SessionUpdates;
  /** Number of the last event that was shown. */
  #last = 0;
  #turn: Followed | undefined;

  /** The session of this id, whose tools work in `workspace`, if that is known. */
  constructor(
    id: string,
    { client, editor, workspace }: {
      readonly client: AgentClient;
      readonly editor: Editor;
      readonly workspace: string | undefined;
    },
  ) {
    this.#id = id;
    this.#client = client;
    this.#editor = editor;
    this.#updates = new SessionUpdates(workspace);
  }

  /** Finds out how far the session is. @throws {RefusedError} 404 if there is none. */
  async resume(): Promise<void> {
    this.#last = (await this.#client.session(this.#id)).lastEvent;
  }

  /** Shows all that was said; a turn that runs is shown on after this has settled. */
  async replay(): Promise<void> {
    const { lastEvent, status } = await this.#client.session(this.#id);
    if (lastEvent === 0) return;
    const events = (await this.#client.events(this.#id, 0))[Symbol.asyncIterator]();
    while (this.#last < lastEvent) {
      const updates: SessionUpdate[] = [];
      while (this.#last < lastEvent && updates.length < REPLAYED) {
        const next = await events.next();
        if (next.done) throw new Error("The server closed the stream before the session's end.");
        this.#last = next.value.number;
        updates.push(...this.#updates.of(next.value));
      }
      for (const update of joinPieces(updates)) {
        // Notices are for the moment.
        if (update.sessionUpdate !== "notice") await this.#show(update);
      }
    }
    if (status === "idle") await events.return?.();
    else this.#watch({ [Symbol.asyncIterator]: () => events });
  }

  /**
   * Plays a turn and shows it.
   *
   * @throws {Error} if the server refuses it or is gone, and if the turn fails.
   */
  async prompt(input: Content): Promise<StopReason> {
    const started = this.#client.startNumberedTurn(this.#id, input);
    const turn: Followed = { started, isCancelled: false };
    // A turn that runs is the server's to refuse another one.
    if (!this.#turn) this.#turn = turn;
    try {
      const events = await started;
      this.#turn = turn;
      for (const title of this.remarks.splice(0)) {
        await this.#show({ sessionUpdate: "notice", severity: "info", title });
      }
      const end = await this.#follow(events, { isOwn: true });
      return turn.isCancelled ? "cancelled" : await this.#stopReason(end);
    } catch (error) {
      if (turn.isCancelled) return "cancelled";
      throw error;
    } finally {
      if (this.#turn === turn) this.#turn = undefined;
    }
  }

  /** Cancels the turn that runs, also while the request for it is on its way. @throws {Error} if the server can't be told. */
  async cancel(): Promise<void> {
    const turn = this.#turn;
    if (!turn) return;
    turn.isCancelled = true;
    // Until the server has answered it may have nothing to cancel yet, and begin the turn afterwards.
    const runs = await turn.started.then(() => true, () => false);
    if (runs && this.#turn === turn) await this.#client.cancel(this.#id);
  }

  /** Shows a turn that others have started. */
  #watch(events: AsyncIterable<NumberedEvent>): void {
    const turn: Followed = { started: Promise.resolve(), isCancelled: false };
    this.#turn = turn;
    this.#follow(events).catch(async (error) => {
      await this.#show({ sessionUpdate: "notice", severity: "error", title: (error as Error).message });
    }).finally(() => {
      if (this.#turn === turn) this.#turn = undefined;
    });
  }

  /** Shows a turn to its end. Where the connection breaks it goes on behind what was shown. */
  async #follow(events: AsyncIterable<NumberedEvent>, { isOwn = false } = {}): Promise<TurnEnd> {
    try {
      for (let reading = events;;) {
        const before = this.#last;
        const end = await this.#read(reading, isOwn).catch((error) => {
          if (this.#last === before) throw error;
        });
        if (end) return end;
        if (this.#last === before) throw new Error("The server closed the stream before the turn's end.");
        reading = await this.#client.events(this.#id, this.#last);
      }
    } catch (error) {
      for (const update of this.#updates.abandon()) await this.#show(update);
      throw error;
    }
  }

  /** Shows these events, up to the end of a turn. */
  async #read(events: AsyncIterable<NumberedEvent>, isOwn: boolean): Promise<TurnEnd | undefined> {
    for await (const numbered of events) {
      this.#last = numbered.number;
      for (const update of this.#updates.of(numbered, { isOwn })) await this.#show(update);
      if (numbered.event.type === "turn_end") return numbered.event;
    }
    return undefined;
  }

  async #stopReason({ reason, message }: TurnEnd): Promise<StopReason> {
    switch (reason) {
      case "completed":
      case "tool_calls":
        return "end_turn";
      case "cancelled":
        return "cancelled";
      case "step_limit":
      case "budget":
      case "output_limit":
        if (message) await this.#show({ sessionUpdate: "notice", severity: "warning", title: message });
        return reason === "output_limit" ? "max_tokens" : "max_turn_requests";
      case "stalled":
      case "interrupted":
      case "model_error":
      case "internal_error":
        throw new RequestError(INTERNAL_ERROR, message ?? `The turn ended: ${reason}.`);
      default:
        return reason satisfies never;
    }
  }

  #show(update: SessionUpdate): Promise<void> {
    return this.#editor.show(this.#id, update);
  }
}

/** JSON-RPC's code for what went wrong on this side. */
export const INTERNAL_ERROR = -32603;
