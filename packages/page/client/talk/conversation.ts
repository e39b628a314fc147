import type { Content } from "@tare/messages";
import type { WorkPlan } from "@tare/messages/internal";
import { partName } from "@tare/server/internal/format";
import { type TranscriptEntry, TranscriptReducer, updateEntries } from "@tare/server/internal/transcript";
import type { Body } from "../../../server/client.ts";
import { api, errorMessage, RefusedError, requestKey } from "../api/api.ts";
import type {
  AgentSession,
  SessionWithMessages,
  TalkEvent,
  TurnBudget,
  WaitingCall,
} from "../api/sessions.ts";

/** Longest pause before the server is tried again, in milliseconds. */
const MAX_PAUSE = 4_000;

/** Event of the window that says that the list of sessions is no longer what it was. */
export const CHANGED = "tare-changed";

/** What a turn is asked for with. */
export interface Sending {
  readonly input: Content;
  readonly budget?: TurnBudget;
}

/** What a person says to whether a call may run. */
export interface Said {
  readonly decision: "allow" | "deny" | "always";
  readonly reason?: string;
}

/**
 * One session as this page follows it: what was said, then its events as they happen, also over a server that was
 * started again. `changed` is called at most once a frame, however much arrives.
 */
export class SessionTalk {
  entries: TranscriptEntry[] = [];
  session: SessionWithMessages | undefined;
  isRunning = false;
  approvals: readonly WaitingCall[] = [];
  trouble: string | undefined;
  /** An input that the server hasn't taken, with the key that lets it act once. */
  unsent: (Sending & { readonly key: string }) | undefined;
  isSending = false;
  readonly id: string;
  readonly #changed: () => void;
  readonly #closing = new AbortController();
  #transcript = new TranscriptReducer();
  #last = 0;
  /** Whether events are being read: by one way at a time, or they would show twice. */
  #isReading = false;
  /** Whether something has begun that these events may end before. */
  #goesOn = false;
  #frame: number | undefined;

  constructor(id: string, changed: () => void) {
    this.id = id;
    this.#changed = changed;
  }

  /** What the model means to do; nothing if it keeps no plan. */
  get plan(): WorkPlan | undefined {
    return this.#transcript.plan;
  }

  /** Whether the model has said its last word: nothing is left to continue. */
  get isAnswered(): boolean {
    const last = this.entries.findLast(({ kind }) => kind === "said" || kind === "reply" || kind === "call");
    return last === undefined || last.kind === "reply";
  }

  get #path() {
    return { id: this.id };
  }

  /** Reads what was said, and follows the turn that runs. */
  async open(): Promise<void> {
    this.#isReading = true;
    await this.#untilReached(async () => {
      // An earlier try may have come half way.
      this.entries = [];
      const { signal } = this.#closing;
      const session = await api.json("GET /sessions/{id}", { path: this.#path, signal });
      if (session.kind !== "agent") throw new Error("This session is another agent's: go on in that agent.");
      this.session = session;
      const { turn, messages, lastEvent, approvals } = session;
      this.#transcript = new TranscriptReducer(session);
      // The running turn shows by its events, which tell more.
      for (const message of messages.slice(0, turn?.firstMessage)) {
        this.#show({ type: "message_added", message });
      }
      for (const { id, session: helper } of session.helpers) {
        this.#show({ type: "helper_started", id, session: helper });
        // The reducer doesn't store calls that have ended.
        const call = this.entries.findLast((entry) => entry.kind === "call" && entry.id === id);
        if (call?.kind === "call") this.entries[call.key] = { ...call, helper };
      }
      this.#last = turn?.after ?? lastEvent;
      for (const { callId: id, ...asked } of approvals) {
        this.#show({ type: "approval_asked", step: 1, ...asked, id });
      }
      this.approvals = approvals;
      this.isRunning = turn !== undefined;
      this.#tell();
    });
    this.#isReading = false;
    // A turn that asks goes on once somebody has answered, here or elsewhere.
    if (this.isRunning || this.approvals.length > 0) await this.follow();
  }

  close(): void {
    this.#closing.abort();
    if (this.#frame !== undefined) cancelAnimationFrame(this.#frame);
  }

  /** Takes what the server's list says, and follows a turn that somebody else started. */
  async heard(listed: AgentSession): Promise<void> {
    if (!this.session) return;
    const { effort, seesPictures, ...known } = this.session;
    const isAsked = listed.model === known.model && listed.effort === effort;
    const isNamed = listed.title !== known.title;
    // Of another model it isn't known here.
    this.session = { ...known, ...listed, ...(isAsked && seesPictures !== undefined && { seesPictures }) };
    if (isNamed || !isAsked) this.#tell();
    if (this.#isReading || (listed.lastEvent <= this.#last && listed.status === "idle")) return;
    this.isRunning = listed.status === "running";
    await this.follow();
  }

  /** Starts a turn with this input, or lets it enter the one that runs. */
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
   * Makes a session that goes on from before the user's last message. What runs here, or waits for an answer, is cancelled.
   * Gives its id and what that message says; nothing if it can't be made. `expected` is what the message says as far as
   * whoever changes it knows. Default: whatever it says.
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
      const said = messages[before]?.content;
      if (said === undefined || said === null) throw new Error("Nothing was said here yet.");
      if (expected !== undefined && plainText(said) !== plainText(expected)) {
        throw new Error("Somebody has said something else since: read that first.");
      }
      const asked = { path, body: { before }, key: requestKey() };
      made = { id: (await api.json("POST /sessions/{id}/fork", asked)).session.id, input: said };
    });
    return made;
  }

  async answer(approval: WaitingCall, said: Said): Promise<boolean> {
    const done = await this.#attempt(async () => {
      const path = { ...this.#path, approval: approval.id };
      await api.send("POST /sessions/{id}/approvals/{approval}", { path, body: said });
    });
    // What it comes to is told by the events.
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
    this.#tell();
  }

  async #post(body: Body<"POST /sessions/{id}/turns">, key: string): Promise<boolean> {
    const done = await this.#attempt(async () => {
      const response = await api.send("POST /sessions/{id}/turns", { path: this.#path, body, key });
      // The events are read by one way alone.
      await response.body?.cancel();
    });
    if (!done) return false;
    this.isRunning = true;
    // Not waited for: it ends with the turn.
    this.follow();
    dispatchEvent(new Event(CHANGED));
    return true;
  }

  /** Reads events until nothing runs any more. */
  async follow(): Promise<void> {
    this.#goesOn = true;
    if (this.#isReading) return;
    this.#isReading = true;
    try {
      while (this.#goesOn) {
        this.#goesOn = false;
        await this.#untilReached(() => this.#readOn());
      }
      this.isRunning = false;
    } finally {
      this.#isReading = false;
      this.#tell();
      dispatchEvent(new Event(CHANGED));
    }
  }

  async #readOn(): Promise<void> {
    const asking = { path: this.#path, query: { after: this.#last }, signal: this.#closing.signal };
    for await (const batch of await api.events("GET /sessions/{id}/events", asking)) {
      this.trouble = undefined;
      for (const { number, event } of batch) this.#take(number, event);
      this.#tell();
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
      // It is being read already.
      this.#goesOn = false;
    }
    if (event.type === "step_end" && this.session) {
      const { usage: { promptTokens: tokens } } = event;
      this.session = { ...this.session, prompt: { ...this.session.prompt, tokens } };
    }
    if (event.type === "turn_end") this.isRunning = false;
    if (event.type === "approval_asked") {
      const { type: _, step: __, pin: ___, approvalId: id = "", id: callId, ...call } = event;
      this.approvals = [...this.approvals, { askedAtMs: 0, expiresAtMs: 0, ...call, id, callId }];
    }
    if (event.type === "approval_answered") {
      this.approvals = this.approvals.filter(({ id }) => id !== event.approvalId);
    }
  }

  /** Tries until the server can be reached, more and more seldom. Other errors are told and end it. */
  async #untilReached(act: () => Promise<void>): Promise<void> {
    for (let pause = 125;; pause = Math.min(2 * pause, MAX_PAUSE)) {
      try {
        await act();
        this.trouble = undefined;
        return;
      } catch (error) {
        if (this.#closing.signal.aborted) return;
        this.trouble = errorMessage(error);
        this.#tell();
        if (!(error instanceof RefusedError) || error.status !== 0) return;
        await new Promise((resolve) => setTimeout(resolve, pause));
        if (this.#closing.signal.aborted) return;
      }
    }
  }

  async #attempt(act: () => Promise<void>): Promise<boolean> {
    try {
      await act();
      this.trouble = undefined;
      return true;
    } catch (error) {
      this.trouble = errorMessage(error);
      return false;
    } finally {
      this.#tell();
    }
  }

  /** Thousands of deltas a second are drawn once a frame; a page in the background draws when it is looked at. */
  #tell(): void {
    if (this.#closing.signal.aborted) return;
    this.#frame ??= requestAnimationFrame(() => {
      this.#frame = undefined;
      this.#changed();
    });
  }
}

/** The text of a content: its text parts, and a word for each part that is none. */
export function plainText(content: Content): string {
  if (typeof content === "string") return content;
  return content.map((part) => {
    if (part.type === "text") return part.text;
    return part.type === "refusal" ? part.refusal : `(${partName(part)})`;
  }).join("\n");
}
