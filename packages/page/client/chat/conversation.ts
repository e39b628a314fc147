import type { Content } from "@tare/messages";
import type { WorkPlan } from "@tare/messages/internal";
import { partName } from "@tare/server/internal/format";
import { type TranscriptEntry, TranscriptReducer, updateEntries } from "@tare/server/internal/transcript";
import { type Body, Reconnection } from "../../../server/client.ts";
import { api, errorMessage, requestKey } from "../api/api.ts";
import type { OwnSession, SessionWithMessages, TalkEvent, TurnBudget, WaitingCall } from "../api/sessions.ts";

export const CHANGED = "tare-changed";

export interface Sending {
  readonly input: Content;
  readonly budget?: TurnBudget;
}

export interface ApprovalReply {
  readonly decision: "allow" | "deny" | "always";
  readonly reason?: string;
}

/** One session on this page: its messages, then its events. `changed` is called at most once per frame. */
export class SessionTalk {
  entries: TranscriptEntry[] = [];
  session: SessionWithMessages | undefined;
  isRunning = false;
  approvals: readonly WaitingCall[] = [];
  trouble: string | undefined;
  unsent: (Sending & { readonly key: string }) | undefined;
  isSending = false;
  readonly id: string;
  readonly #changed: () => void;
  readonly #closing = new AbortController();
  readonly #connection = new Reconnection({
    onAway: (error) => this.#failed(error),
    maxTries: Infinity,
    signal: this.#closing.signal,
  });
  #transcript = new TranscriptReducer();
  #last = 0;
  /** Whether events are being read; a second reader would duplicate them. */
  #isReading = false;
  /** Whether a turn may have started after the end of the current stream. */
  #continues = false;
  #frame: number | undefined;

  constructor(id: string, changed: () => void) {
    this.id = id;
    this.#changed = changed;
  }

  get plan(): WorkPlan | undefined {
    return this.#transcript.plan;
  }

  /** Whether the model has replied, so that nothing is left to continue. */
  get isAnswered(): boolean {
    const last = this.entries.findLast(({ kind }) => kind === "user" || kind === "reply" || kind === "call");
    return last === undefined || last.kind === "reply";
  }

  get #path() {
    return { id: this.id };
  }

  async open(): Promise<void> {
    this.#isReading = true;
    await this.#attempt(async () => {
      const asking = { path: this.#path, signal: this.#closing.signal };
      const session = await this.#connection.retry(() => api.json("GET /sessions/{id}", asking));
      if (session.kind !== "agent") {
        throw new Error(
          "Cannot open the chat: the session belongs to another agent. Continue it in that agent.",
        );
      }
      this.session = session;
      const { turn, messages, lastEvent, approvals } = session;
      this.#transcript = new TranscriptReducer(session);
      // A running turn is displayed from its events, which contain more.
      for (const message of messages.slice(0, turn?.firstMessage)) {
        this.#show({ type: "message_added", message });
      }
      for (const { id, session: subagent } of session.subagents) {
        this.#show({ type: "subagent_started", id, session: subagent });
        // The reducer forgets completed calls.
        const call = this.entries.findLast((entry) => entry.kind === "call" && entry.id === id);
        if (call?.kind === "call") this.entries[call.key] = { ...call, subagent };
      }
      this.#last = turn?.after ?? lastEvent;
      for (const { callId: id, ...question } of approvals) {
        this.#show({ type: "approval_requested", step: 1, ...question, id });
      }
      this.approvals = approvals;
      this.isRunning = turn !== undefined;
    });
    this.#isReading = false;
    // A turn that waits for approval continues once it is answered, here or elsewhere.
    if (this.isRunning || this.approvals.length > 0) await this.follow();
  }

  close(): void {
    this.#closing.abort();
    if (this.#frame !== undefined) cancelAnimationFrame(this.#frame);
  }

  /** Takes the session's entry in the list, and follows a turn that another client started. */
  async updateFromList(listed: OwnSession): Promise<void> {
    if (!this.session) return;
    const { effort, supportsImages, ...known } = this.session;
    const isChosen = listed.model === known.model && listed.effort === effort;
    // Lists may arrive in another order.
    const totals = listed.totals.calls < known.totals.calls ? known.totals : listed.totals;
    const isNew = listed.title !== known.title || JSON.stringify(totals) !== JSON.stringify(known.totals);
    // The model's image support is unknown after a change of model.
    this.session = {
      ...known,
      ...listed,
      totals,
      ...(isChosen && supportsImages !== undefined && { supportsImages }),
    };
    if (isNew || !isChosen) this.#render();
    const { lastEvent, status } = listed;
    // The list may be older than the events that are displayed.
    if (this.#isReading || lastEvent < this.#last || (lastEvent === this.#last && status === "idle")) return;
    this.isRunning = status === "running";
    await this.follow();
  }

  async send(sending: Sending): Promise<void> {
    await this.#start({ ...sending, key: requestKey() });
  }

  async sendAgain(): Promise<void> {
    if (this.unsent) await this.#start(this.unsent);
  }

  async continue(budget?: TurnBudget): Promise<void> {
    await this.#post({ continue: true, ...(budget && { budget }) }, requestKey());
  }

  /**
   * Forks the session before the user's last message, and cancels a running turn. Resolves to the new id and that message;
   * undefined on failure. `expected` is the message that was edited. Default: any.
   */
  async forkBeforeLast(
    expected?: Content,
  ): Promise<{ readonly id: string; readonly input: Content } | undefined> {
    let made: { readonly id: string; readonly input: Content } | undefined;
    await this.#attempt(async () => {
      const path = this.#path;
      if (this.isRunning || this.approvals.length > 0) {
        await api.send("POST /sessions/{id}/cancel", { path });
      }
      const session = await api.json("GET /sessions/{id}", { path });
      const messages = session.kind === "agent" ? session.messages : [];
      const before = messages.findLastIndex(({ role }) => role === "user");
      const content = messages[before]?.content;
      if (content === undefined || content === null) {
        throw new Error("Cannot fork: the session has no message. Send one first.");
      }
      if (expected !== undefined && plainText(content) !== plainText(expected)) {
        throw new Error("Cannot send the edit: a newer message was added meanwhile. Read it first.");
      }
      const request = { path, body: { before }, key: requestKey() };
      made = { id: (await api.json("POST /sessions/{id}/fork", request)).session.id, input: content };
    });
    return made;
  }

  async answer(approval: WaitingCall, reply: ApprovalReply): Promise<boolean> {
    const done = await this.#attempt(async () => {
      const path = { ...this.#path, approval: approval.id };
      await api.send("POST /sessions/{id}/approvals/{approval}", { path, body: reply });
    });
    // The outcome arrives as events.
    if (done && !this.#isReading) this.follow();
    return done;
  }

  async cancel(): Promise<void> {
    await this.#attempt(async () => {
      await api.send("POST /sessions/{id}/cancel", { path: this.#path });
    });
  }

  async #start(unsent: Sending & { readonly key: string }): Promise<void> {
    const { key, input, budget } = unsent;
    this.unsent = unsent;
    this.isSending = true;
    const sent = await this.#post({ input, steer: true, ...(budget && !this.isRunning && { budget }) }, key);
    this.isSending = false;
    if (sent) this.unsent = undefined;
    this.#render();
  }

  async #post(body: Body<"POST /sessions/{id}/turns">, key: string): Promise<boolean> {
    const done = await this.#attempt(async () => {
      const response = await api.send("POST /sessions/{id}/turns", { path: this.#path, body, key });
      // Only follow() reads events.
      await response.body?.cancel();
    });
    if (!done) return false;
    this.isRunning = true;
    // Not awaited, because it ends with the turn.
    this.follow();
    dispatchEvent(new Event(CHANGED));
    return true;
  }

  async follow(): Promise<void> {
    this.#continues = true;
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      while (this.#continues) {
        this.#continues = false;
        await this.#attempt(() => this.#readOn());
      }
      this.isRunning = false;
    } finally {
      this.#isReading = false;
      this.#render();
      dispatchEvent(new Event(CHANGED));
    }
  }

  async #readOn(): Promise<void> {
    const asking = { path: this.#path, signal: this.#closing.signal };
    const follow = (after: number) =>
      api.events("GET /sessions/{id}/events", { ...asking, query: { after } });
    for await (const { number, event } of this.#connection.events(follow, { after: this.#last })) {
      this.trouble = undefined;
      this.#take(number, event);
      this.#render();
    }
  }

  #show(event: TalkEvent): void {
    updateEntries(this.entries, this.#transcript.apply(event));
  }

  #take(number: number, event: TalkEvent): void {
    this.#last = number;
    this.#show(event);
    if (event.type === "turn_start") {
      this.isRunning = true;
      // This stream already contains the turn.
      this.#continues = false;
    }
    if (event.type === "step_end" && this.session) {
      const { usage: { promptTokens: tokens } } = event;
      this.session = { ...this.session, prompt: { ...this.session.prompt, tokens } };
      // The list contains the cost.
      dispatchEvent(new Event(CHANGED));
    }
    if (event.type === "turn_end") this.isRunning = false;
    if (event.type === "approval_requested") {
      const { type: _, step: __, pin: ___, approvalId: id = "", id: callId, ...call } = event;
      this.approvals = [...this.approvals, { requestedAtMs: 0, expiresAtMs: 0, ...call, id, callId }];
    }
    if (event.type === "approval_answered") {
      this.approvals = this.approvals.filter(({ id }) => id !== event.approvalId);
    }
  }

  #failed(error: unknown): void {
    this.trouble = errorMessage(error);
    this.#render();
  }

  async #attempt(act: () => Promise<void>): Promise<boolean> {
    try {
      await act();
      this.trouble = undefined;
      this.#render();
      return true;
    } catch (error) {
      this.#failed(error);
      return false;
    }
  }

  /** Renders at most once per frame; a page in the background renders when it becomes visible. */
  #render(): void {
    if (this.#closing.signal.aborted) return;
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = undefined;
      this.#changed();
    });
  }
}

export function plainText(content: Content): string {
  if (typeof content === "string") return content;
  return content.map((part) => {
    if (part.type === "text") return part.text;
    return part.type === "refusal" ? part.refusal : `(${partName(part)})`;
  }).join("\n");
}
