import { assert, assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import type { SessionEvent } from "@tare/server";
import { readEvents, type ReceivedEvent } from "../../crash/read_events.ts";
import { awaitedLater, get, isBroken, pause, post, postOnce, send, until } from "./client.ts";
import { tokensIn } from "./cluster_model.ts";
import type { RecordedRequest } from "../../recording_provider.ts";
import { extendsRequest, type Provider } from "./provider.ts";
import { assertTurns, isRewrite } from "../../crash/witness.ts";

export interface TalkerOptions {
  /** Instructions unique to the session, by which the provider identifies it. */
  readonly instructions: string;
  readonly asks: boolean;
  readonly provider: Provider;
  readonly random: () => number;
}

interface Input {
  readonly text: string;
  isTaken: boolean;
}

interface Fate {
  mayRun: boolean;
  isDenied: boolean;
}

interface Question {
  readonly id: string;
  readonly arguments: string;
}

/** Events that may follow a turn's end, with the outcome that they imply. */
const BEHIND_TURNS: Readonly<Record<string, string>> = {
  approval_answered: "approval",
  message_added: "withdrawn",
};

/** Transient conflicts: a turn whose server is gone counts as running until the lease ends. */
const PASSING = ["turn_running", "idempotency_key_in_use"];

/**
 * Clients of one agent session: one sends, steers, cancels and approves; another watches. They continue
 * through faults, and check acknowledgements.
 */
export class Talker {
  readonly id: string;
  readonly #instructions: string;
  readonly #asks: boolean;
  readonly #provider: Provider;
  readonly #random: () => number;
  /** Data of each received event, by its number. */
  readonly #acknowledged = new Map<number, string>();
  readonly #inputs: Input[] = [];
  readonly #fates = new Map<string, Fate>();
  #last = 0;
  readonly ends: Map<string, number> = new Map();
  /** Number of turns that a server resumed after another one. */
  resumed = 0;
  queued = 0;

  private constructor(id: string, { instructions, asks, provider, random }: TalkerOptions) {
    this.id = id;
    this.#instructions = instructions;
    this.#asks = asks;
    this.#provider = provider;
    this.#random = random;
  }

  static async create(url: string, options: TalkerOptions): Promise<Talker> {
    const { instructions, asks } = options;
    const approvalRules = asks ? [{ tool: "shell", decision: "ask" }] : [];
    const { status, body } = await postOnce(`${url}/tare/v1/sessions`, { instructions, approvalRules });
    assertEquals(status, 201);
    return new Talker(body.id, options);
  }

  /** Plays turn after turn until it `isOver`, and waits for the last end. */
  async work(url: string, isOver: () => boolean): Promise<void> {
    const at = `${url}/tare/v1/sessions/${this.id}`;
    let isIdle = false;
    const watching = awaitedLater(this.#watch(at, () => isIdle));
    try {
      while (!isOver()) await this.#turn(at);
      await this.#settle(at);
    } finally {
      isIdle = true;
      await watching;
    }
  }

  async #turn(at: string): Promise<void> {
    await this.#settle(at);
    const approvals = this.#asks ? await this.#open(at) : [];
    if (approvals.length > 0 && this.#random() < 0.9) await this.#answer(at, approvals);
    else await this.#say(at);
  }

  async #say(at: string): Promise<void> {
    const text = `Continue: ${this.#inputs.length}.`;
    const input = { text, isTaken: false };
    this.#inputs.push(input);
    const background = this.#random() < 0.2;
    const request = { input: text, ...(background && { background }) };
    const isPlayed = await this.#play(at, request, () => this.#meddle(at));
    input.isTaken ||= isPlayed;
    if (background && isPlayed) this.queued++;
  }

  async #meddle(at: string): Promise<void> {
    const choice = this.#random();
    if (choice < 0.3) {
      const input = { text: `And also: ${this.#inputs.length}.`, isTaken: false };
      this.#inputs.push(input);
      const isPlayed = await this.#play(at, { input: input.text, steer: true });
      input.isTaken ||= isPlayed;
    } else if (choice < 0.4) {
      const { status, body } = await postOnce(`${at}/cancel`, {}, PASSING);
      assert(status === 200 || body.error.code === "idempotency_key_interrupted", JSON.stringify(body));
      if (status === 200) assertEquals((await get(at)).status, 200);
    }
  }

  /**
   * Sends a turn's request until its outcome is known, and receives its events. Returns whether it was
   * accepted.
   */
  async #play(at: string, request: unknown, meddle?: () => Promise<void>): Promise<boolean> {
    const key = crypto.randomUUID();
    const twin = this.#random() < 0.2 ? awaitedLater(this.#sendOnce(at, { request, key })) : undefined;
    let meddling: Promise<void> | undefined;
    const meddlesAt = Math.floor(this.#random() * 60);
    let received = 0;
    const isTaken = await until(`POST ${at}/turns`, async () => {
      const response = await post(`${at}/turns`, request, key);
      if (!response) return undefined;
      if (response.status === 200) {
        for await (const { data } of this.#received(response)) {
          if (meddle && received++ === meddlesAt) meddling = awaitedLater(meddle());
          if (JSON.parse(data).type === "turn_end") return true;
        }
        return undefined;
      }
      const body = await response.json();
      if (response.status === 202) return true;
      assertEquals(response.status, 409, JSON.stringify(body));
      if (PASSING.includes(body.error.code)) return undefined;
      assert(
        ["nothing_to_continue", "approval_open"].includes(body.error.code),
        JSON.stringify(body),
      );
      return false;
    });
    await Promise.all([meddling, twin]);
    return isTaken;
  }

  /** Sends the same request concurrently with the same key, perhaps to another server. */
  async #sendOnce(
    at: string,
    { request, key }: { readonly request: unknown; readonly key: string },
  ): Promise<void> {
    const response = await post(`${at}/turns`, request, key);
    if (response?.status === 200) await Array.fromAsync(this.#received(response));
    else await response?.body?.cancel();
  }

  async #open(at: string): Promise<readonly Question[]> {
    const { body } = await get(`${at}/approvals`);
    return body.approvals;
  }

  async #answer(at: string, open: readonly Question[]): Promise<void> {
    for (const { id, arguments: text } of open) {
      const fate = this.#fate(text);
      const decision = this.#random() < 0.7 ? "allow" : "deny";
      fate.mayRun ||= decision === "allow";
      // Sometimes two users answer at the same time.
      const people = this.#random() < 0.3 ? 2 : 1;
      const answers = await Promise.all(
        Array.from(
          { length: people },
          () => postOnce(`${at}/approvals/${id}`, { decision }, PASSING),
        ),
      );
      const heard = answers.filter(({ status }) => status === 200).length;
      assert(heard <= 1, "two answers to one question were heard");
      fate.isDenied ||= heard === 1 && decision === "deny";
      for (const { status, body } of answers) {
        // Another answer was first, or this one reached a server that was lost before it replied.
        assert([200, 404, 409].includes(status), `${status} ${JSON.stringify(body)}`);
      }
    }
  }

  #fate(text: string): Fate {
    const [token = ""] = tokensIn(text);
    const fate = this.#fates.get(token) ?? { mayRun: false, isDenied: false };
    this.#fates.set(token, fate);
    return fate;
  }

  async #settle(at: string): Promise<string | undefined> {
    let seen: unknown;
    return await until(
      () => `the end of the turn of session ${this.id}, of ${JSON.stringify(seen)}`,
      async () => {
        // A turn that started since means that the session isn't idle.
        if (await this.#isWaiting(at)) return undefined;
        const { status, body } = await get(at);
        assertEquals(status, 200, JSON.stringify(body));
        seen = body;
        if (body.status !== "idle") return undefined;
        if (body.lastEvent === 0) return "none";
        const { data } = await this.#newest(at, body.lastEvent) ?? {};
        const event = data && JSON.parse(data);
        seen = { ...body, event };
        // Outcome of its approvals: answered while others are open, or withdrawn.
        return event?.type === "turn_end" ? event.reason : BEHIND_TURNS[event?.type];
      },
    );
  }

  /** Reports whether turns wait although no approval is pending: they are about to begin. */
  async #isWaiting(at: string): Promise<boolean> {
    const { queue } = (await get(`${at}/queue`)).body;
    return queue.length > 0 && (await this.#open(at)).length === 0;
  }

  async #newest(at: string, number: number): Promise<ReceivedEvent | undefined> {
    const controller = new AbortController();
    try {
      const response = await send(`${at}/events?after=${number - 1}`, {}, controller.signal);
      if (response.ok) { for await (const event of readEvents(response)) return event; }
      else await response.body?.cancel();
    } catch (error) {
      if (!isBroken(error) && !isReported(error)) throw error;
    } finally {
      controller.abort();
    }
    return undefined;
  }

  /** Follows the session as a second client, with reconnects. */
  async #watch(at: string, isOver: () => boolean): Promise<void> {
    let last = this.#last;
    while (!isOver()) {
      const controller = new AbortController();
      const ending = setInterval(() => isOver() && controller.abort(), 50);
      try {
        const response = await send(`${at}/events?after=${last}`, {}, controller.signal);
        if (!response.ok) await response.body?.cancel();
        else {
          for await (const event of this.#received(response)) {
            assertEquals(event.number, last + 1, `an event of session ${this.id} is missing or comes twice`);
            last = event.number;
          }
        }
      } catch (error) {
        if (!isBroken(error) && !isReported(error)) throw error;
      } finally {
        clearInterval(ending);
        controller.abort();
      }
      await pause(20);
    }
  }

  async *#received(response: Response): AsyncGenerator<ReceivedEvent, void> {
    try {
      for await (const event of readEvents(response)) {
        const known = this.#acknowledged.get(event.number);
        assertEquals(event.data, known ?? event.data, `event ${event.number} of session ${this.id}`);
        this.#acknowledged.set(event.number, event.data);
        this.#last = Math.max(this.#last, event.number);
        yield event;
      }
    } catch (error) {
      if (!isBroken(error) && !isReported(error)) throw error;
    }
  }

  /**
   * Checks that everything acknowledged is on every server, in order and once, and the session is complete.
   */
  async check(urls: readonly string[]): Promise<readonly ReceivedEvent[]> {
    const states = await Promise.all(urls.map((url) => this.#read(`${url}/tare/v1/sessions/${this.id}`)));
    const [first] = states;
    assert(first);
    for (const state of states) assertEquals(state, first, "two servers return different sessions");
    const { messages, received, pending } = first;
    assertEquals(received.map(({ number }) => number), received.map((_, index) => index + 1));
    for (const [number, data] of this.#acknowledged) {
      assertEquals(received[number - 1]?.data, data, `event ${number} of session ${this.id}`);
    }
    for (const { text, isTaken } of this.#inputs) {
      const times = messages.filter(({ role, content }) => role === "user" && content === text).length;
      // Steering during a turn with a pending approval waits for the answer too.
      assert(
        times === 1 || times === 0 && (!isTaken || pending > 0),
        `${text} is there ${times} times; taken: ${isTaken}`,
      );
    }
    const events = received.map(({ data }): SessionEvent => JSON.parse(data));
    assertTurns(events);
    const behind = events.slice(events.findLastIndex(({ type }) => type === "turn_end") + 1);
    const ids = behind.flatMap((event) => event.type === "approval_answered" ? [event.id] : []);
    assertAnswered(messages, { pending, reported: new Set(ids) });
    await this.#assertPrefixes(events);
    this.#countEnds(events);
    return received;
  }

  async #read(at: string) {
    const { body } = await get(at);
    assertEquals(body.status, "idle", `session ${this.id}`);
    const received: ReceivedEvent[] = [];
    const controller = new AbortController();
    try {
      const response = await send(`${at}/events`, {}, controller.signal);
      // A session with pending approvals keeps the stream open.
      if (body.lastEvent > 0) {
        for await (const event of readEvents(response)) {
          received.push(event);
          if (event.number >= body.lastEvent) break;
        }
      }
    } finally {
      controller.abort();
    }
    const { approvals } = (await get(`${at}/approvals`)).body;
    return { messages: body.messages as Message[], received, pending: approvals.length as number };
  }

  async #assertPrefixes(events: readonly SessionEvent[]): Promise<void> {
    const requests = await this.#provider.requestsOf(this.#instructions);
    const steps = events.filter(({ type }) => type === "step_end").length;
    assert(
      requests.length >= steps,
      `${requests.length} requests begin with the instructions, in ${steps} steps`,
    );
    let breaks = 0;
    let newest: RecordedRequest | undefined;
    for (const request of requests) {
      // A late request of a disconnected server breaks no prefix if all of it was sent before.
      if (newest && extendsRequest(request, newest)) continue;
      if (newest && !extendsRequest(newest, request)) breaks++;
      newest = request;
    }
    const rewrites = events.filter(isRewrite).length;
    assert(breaks <= rewrites, `${breaks} breaks of the prefix, ${rewrites} rewrites`);
  }

  /** Counts the turns' outcomes; none may end because its server did. */
  #countEnds(events: readonly SessionEvent[]): void {
    this.ends.clear();
    this.resumed = events.filter(({ type }) => type === "turn_resumed").length;
    for (const event of events) {
      if (event.type === "turn_end") assert(event.reason !== "interrupted", JSON.stringify(event));
      if (event.type === "turn_end") this.ends.set(event.reason, (this.ends.get(event.reason) ?? 0) + 1);
    }
  }

  /** Checks that only approved calls ran where approval is needed, and none that was certainly denied. */
  checkRuns(ran: readonly string[]): void {
    for (const token of this.#asks ? ran : []) {
      const { mayRun = false, isDenied = false } = this.#fates.get(token) ?? {};
      assert(mayRun && !isDenied, `${token} ran without a yes`);
    }
  }
}

function isReported(error: unknown): boolean {
  return error instanceof Error && error.message.startsWith('{"error"');
}

/** Checks that each result answers one earlier call. Only the last calls may lack results. */
function assertAnswered(
  messages: readonly Message[],
  { pending, reported }: { readonly pending: number; readonly reported: ReadonlySet<string> },
): void {
  const open = new Set<string>();
  for (const message of messages) {
    if (message.role === "tool") assert(open.delete(message.tool_call_id), "an answer to no call");
    else {
      assertEquals([...open], [], "a call has no answer");
      if (message.role === "assistant") { for (const { id } of message.tool_calls ?? []) open.add(id); }
    }
  }
  const untold = [...open].filter((id) => !reported.has(id));
  assertEquals(untold.length, pending, "calls without an answer");
  assert(pending > 0 || open.size === 0, "all was answered, and calls have no answer");
}
