import {
  type PermissionOption,
  RequestError,
  type RequestPermissionRequest,
  type RequestPermissionResponse,
  type SessionUpdate,
  type StopReason,
} from "@agentclientprotocol/sdk";
import type { TurnEnd } from "@tare/loop";
import type { Content } from "@tare/messages";
import type { NumberedEvent } from "@tare/server";
import {
  type AgentClient,
  type AgentInfo,
  type Approval,
  type ApprovalAnswer,
  RefusedError,
} from "../agent_client.ts";
import { joinPieces, SessionUpdates } from "./session_updates.ts";
import { describeToolCall } from "./tool_calls.ts";

/** What a session tells the editor by. */
export interface Editor {
  /** Shows an update; settles once the editor's pipe has room. */
  readonly show: (session: string, update: SessionUpdate) => Promise<void>;
  readonly ask: QuestionsOptions["ask"];
}

/** A turn that is followed. */
interface Followed {
  /** Settles once the server has begun it, or has refused. */
  readonly started: Promise<unknown>;
  /** Whether the editor has begun it, and shows its first message already. */
  readonly isOwn: boolean;
  isCancelled: boolean;
  /** Whether another one has taken its place, whose events come after its own. */
  isOver: boolean;
}

/** How a turn ended. */
type Ending = Pick<TurnEnd, "reason" | "message">;

/** Whose events are read, and when it is another turn that ends. */
interface Reading {
  readonly turn: Followed;
  /** Number of its first event; ends before that are of turns before. Default: that of any that is read. */
  readonly from?: number;
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
  readonly #questions: Questions;
  /** Number of the last event that was shown. */
  #last = 0;
  #turn: Followed | undefined;
  /** Whether the last turn ended to ask, and no other has begun. */
  #isAsking = false;

  /** The session of this id. */
  constructor(
    id: string,
    { client, editor, agent }: {
      readonly client: AgentClient;
      readonly editor: Editor;
      readonly agent: AgentInfo;
    },
  ) {
    this.#id = id;
    this.#client = client;
    this.#editor = editor;
    this.#updates = new SessionUpdates(agent);
    this.#questions = new Questions({
      id,
      client,
      workspace: agent.workspace,
      ask: editor.ask,
      cancel: () => this.cancel(),
      warn: (title) => this.#show({ sessionUpdate: "notice", severity: "warning", title }),
    });
  }

  /** Goes on behind what was said; what waits for an answer is asked. @throws {RefusedError} 404 if there is no such session. */
  async resume(): Promise<void> {
    const { lastEvent, ledger, approvals } = await this.#client.session(this.#id);
    this.#last = lastEvent;
    this.#updates.begin(ledger.usd);
    for (const asked of approvals) {
      this.#questions.asked(asked);
      const event = { type: "approval_asked", step: 1, id: asked.callId, ...asked } as const;
      for (const update of this.#updates.of({ number: lastEvent, event })) await this.#show(update);
    }
    this.#isAsking = this.#questions.areOpen;
    if (this.#isAsking) this.#watch(await this.#client.follow(this.#id, lastEvent));
  }

  /** Shows all that was said; a turn that runs, or asks, is shown on after this has settled. */
  async replay(): Promise<void> {
    const { lastEvent, status } = await this.#client.session(this.#id);
    if (lastEvent === 0) return;
    const events = (await this.#client.follow(this.#id, 0))[Symbol.asyncIterator]();
    while (this.#last < lastEvent) {
      const updates: SessionUpdate[] = [];
      while (this.#last < lastEvent && updates.length < REPLAYED) {
        const next = await events.next();
        if (next.done) throw new Error("The server closed the stream before the session's end.");
        // Notices are for the moment.
        updates.push(...this.#take(next.value).filter(({ sessionUpdate }) => sessionUpdate !== "notice"));
      }
      for (const update of joinPieces(updates)) await this.#show(update);
    }
    if (status === "running" || this.#questions.areOpen) {
      this.#watch({ [Symbol.asyncIterator]: () => events });
    } else await events.return?.();
  }

  /**
   * Plays a turn and shows it.
   *
   * @throws {Error} if the server refuses it or is gone, and if the turn fails.
   */
  async prompt(input: Content): Promise<StopReason> {
    const started = this.#client.startTurn(this.#id, input);
    const turn: Followed = { started, isOwn: true, isCancelled: false, isOver: false };
    // A turn that runs is the server's to refuse another one.
    if (!this.#turn) this.#turn = turn;
    try {
      let events = await started;
      let from: number | undefined;
      const before = this.#turn;
      if (before && before !== turn) {
        // It asked, and is over with this: what became of its calls stands before the turn's own events.
        before.isOver = true;
        from = await firstNumber(events);
        events = await this.#client.follow(this.#id, this.#last);
      }
      this.#turn = turn;
      for (const title of this.remarks.splice(0)) {
        await this.#show({ sessionUpdate: "notice", severity: "info", title });
      }
      const end = await this.#follow(events, { turn, ...(from !== undefined && { from }) });
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

  /** Cancels the turn that the editor has begun, because it has gone; what waits for an answer goes on waiting. */
  async leave(): Promise<void> {
    if (this.#turn?.isOwn && !this.#questions.areOpen) await this.cancel();
  }

  /** Shows a turn that others have started, or that was left asking. */
  #watch(events: AsyncIterable<NumberedEvent>): void {
    const turn: Followed = { started: Promise.resolve(), isOwn: false, isCancelled: false, isOver: false };
    this.#turn = turn;
    this.#putQuestions();
    this.#follow(events, { turn }).catch(async (error) => {
      await this.#show({ sessionUpdate: "notice", severity: "error", title: (error as Error).message });
    }).finally(() => {
      if (this.#turn === turn) this.#turn = undefined;
    }).catch(() => {
      // The editor has gone.
    });
  }

  /** Shows a turn to its end. Where the connection breaks it goes on behind what was shown. */
  async #follow(events: AsyncIterable<NumberedEvent>, reading: Reading): Promise<Ending> {
    try {
      for (let [next, inVain] = [events, 0];;) {
        const before = this.#last;
        let cause: unknown;
        const end = await this.#read(next, reading).catch((error) => void (cause = error));
        if (end) return end;
        // What was asked is answered, and nothing goes on.
        const isOver = this.#isAsking && !this.#questions.areOpen && cause === undefined;
        if (reading.turn.isOver || isOver) return { reason: "cancelled" };
        inVain = this.#last === before ? inVain + 1 : 0;
        if (inVain > 1) throw new Error("The server closed the stream before the turn's end.", { cause });
        // Behind a turn that asks, what follows is another stream; and a connection may break.
        next = await this.#client.follow(this.#id, this.#last);
      }
    } catch (error) {
      if (reading.turn.isOver) throw error;
      this.#questions.leave();
      for (const update of this.#updates.abandon()) await this.#show(update);
      throw error;
    }
  }

  /** Shows these events, up to the end of a turn. One that asks goes on once it is answered. */
  async #read(
    events: AsyncIterable<NumberedEvent>,
    { turn, from = 0 }: Reading,
  ): Promise<Ending | undefined> {
    for await (const numbered of events) {
      if (turn.isOver) break;
      for (const update of this.#take(numbered, turn)) await this.#show(update);
      const { number, event } = numbered;
      if (event.type !== "turn_end" || number < from) continue;
      if (event.reason !== "approval") return event;
      this.#putQuestions();
    }
    return undefined;
  }

  #take(numbered: NumberedEvent, { isOwn } = { isOwn: false }): readonly SessionUpdate[] {
    const { number, event } = numbered;
    this.#last = number;
    if (event.type === "turn_start") this.#isAsking = false;
    if (event.type === "turn_end") this.#isAsking = event.reason === "approval";
    if (event.type === "approval_asked") {
      // Of a session's events each tells its times.
      const { id: callId, name, arguments: text, askedAtMs = 0, expiresAtMs = 0 } = event;
      this.#questions.asked({ callId, name, arguments: text, askedAtMs, expiresAtMs });
    }
    if (event.type === "approval_answered") this.#questions.answered(event.id);
    return [...this.#updates.of(numbered, { isOwn })];
  }

  #putQuestions(): void {
    this.#questions.put((id) => this.#updates.idOf(id));
  }

  async #stopReason({ reason, message }: Ending): Promise<StopReason> {
    switch (reason) {
      case "completed":
      case "tool_calls":
        return "end_turn";
      case "approval":
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

/** Number of the first event, of which no more are wanted. */
async function firstNumber(events: AsyncIterable<NumberedEvent>): Promise<number> {
  for await (const { number } of events) return number;
  throw new Error("The server closed the stream before the turn's end.");
}

/** JSON-RPC's code for what went wrong on this side. */
export const INTERNAL_ERROR = -32603;

/** What {@linkcode Questions} work with. */
interface QuestionsOptions {
  /** The session's. */
  readonly id: string;
  readonly client: Pick<AgentClient, "answer">;
  /** Puts a question to the person; rejects if the editor can't, or once `signal` says that it needs no answer any more. */
  readonly ask: (
    request: RequestPermissionRequest,
    signal: AbortSignal,
  ) => Promise<RequestPermissionResponse>;
  /** Cancels the turn. */
  readonly cancel: () => Promise<void>;
  /** Tells the person what went wrong. */
  readonly warn: (message: string) => Promise<void>;
  readonly workspace: string | undefined;
}

const OPTIONS: readonly (PermissionOption & { readonly optionId: ApprovalAnswer["decision"] })[] = [
  { optionId: "allow", kind: "allow_once", name: "Allow" },
  { optionId: "always", kind: "allow_always", name: "Always allow in this session" },
  { optionId: "deny", kind: "reject_once", name: "Deny" },
];

/** What a session asks before calls run, put to the person in the editor and answered to the server. */
class Questions {
  readonly #options: QuestionsOptions;
  readonly #open = new Map<string, { readonly asked: Approval; readonly answered: AbortController }>();

  /** Nothing is asked yet. */
  constructor(options: QuestionsOptions) {
    this.#options = options;
  }

  /** Whether anything waits for an answer. */
  get areOpen(): boolean {
    return this.#open.size > 0;
  }

  /** The server asks this. The person is asked once the turn has ended: before, nothing would go on. */
  asked(asked: Approval): void {
    this.#open.set(asked.callId, { asked, answered: new AbortController() });
  }

  /** Somebody has answered, or the time is over: the person need not any more. */
  answered(id: string): void {
    this.#open.get(id)?.answered.abort();
    this.#open.delete(id);
  }

  /** Nobody is followed any more: nobody is asked either. */
  leave(): void {
    for (const id of [...this.#open.keys()]) this.answered(id);
  }

  /** Puts what is open to the person. `toolCallId` is the editor's name for a call. */
  put(toolCallId: (id: string) => string): void {
    for (const { asked, answered } of this.#open.values()) {
      // Where the server can't be told, whoever follows the turn hears that it is gone.
      this.#put(asked, { toolCallId: toolCallId(asked.callId), signal: answered.signal }).catch(() => {});
    }
  }

  async #put(
    asked: Approval,
    { toolCallId, signal }: { readonly toolCallId: string; readonly signal: AbortSignal },
  ): Promise<void> {
    const { id, client, ask, cancel, warn, workspace } = this.#options;
    const shown = describeToolCall({ name: asked.name, text: asked.arguments, workspace });
    const request = {
      sessionId: id,
      toolCall: { toolCallId, name: asked.name, status: "pending" as const, ...shown },
      options: [...OPTIONS],
    };
    while (!signal.aborted) {
      const { outcome } = await ask(request, signal).catch(
        async (error): Promise<RequestPermissionResponse> => {
          if (!signal.aborted) await warn(`Cannot ask in the editor, so it is denied: ${error.message}`);
          return { outcome: { outcome: "selected", optionId: "deny" } };
        },
      );
      if (signal.aborted) return;
      if (outcome.outcome === "cancelled") return await cancel();
      // What the person doesn't say clearly is no.
      const decision = OPTIONS.find(({ optionId }) => optionId === outcome.optionId)?.optionId ?? "deny";
      try {
        return await client.answer(id, asked, { decision });
      } catch (error) {
        if (!(error instanceof RefusedError)) throw error;
        // Somebody else has answered.
        if (error.status === 404 || error.status === 409) return;
        await warn(error.message);
      }
    }
  }
}
