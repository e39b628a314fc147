import { assert, assertEquals } from "@std/assert";
import type { LoopEvent } from "@tare/loop";
import type { Message } from "@tare/messages";
import type { PinReport } from "@tare/session/internal/report";
import type { SessionEvent } from "@tare/server";
import { jsonPost } from "./json_post.ts";
import { readEvents, type ReceivedEvent } from "./read_events.ts";
import type { RecordedRequest, RecordingProvider } from "../recording_provider.ts";
import { asksForSummary } from "./working_model.ts";

interface TurnRequest {
  readonly key: string;
  readonly body: string;
}

export interface Testimony {
  readonly events: readonly LoopEvent[];
  readonly resumed: number;
}

export interface WitnessOptions {
  /** Instructions unique to the session, by which the provider identifies it. */
  readonly instructions: string;
  readonly provider: RecordingProvider;
  readonly random: () => number;
  /** Whether the first request of each turn may have another prefix than the one before. */
  readonly turnsRestart: boolean;
}

/**
 * Clients of one session: one starts and steers turns, one watches. They {@linkcode check} the
 * acknowledgements.
 */
export class Witness {
  readonly #provider: RecordingProvider;
  readonly #random: () => number;
  readonly #id: string;
  readonly #instructions: string;
  readonly #turnsRestart: boolean;
  #heard = Promise.withResolvers<void>();
  readonly #acknowledged = new Map<number, string>();
  readonly #steered: string[] = [];
  readonly #pinned = new Map<number, PinReport["wish"]>();
  #sent = 0;
  #lastTurn: TurnRequest | undefined;

  private constructor(id: string, options: WitnessOptions) {
    this.#id = id;
    this.#turnsRestart = options.turnsRestart;
    this.#instructions = options.instructions;
    this.#provider = options.provider;
    this.#random = options.random;
  }

  static async create(url: string, options: WitnessOptions): Promise<Witness> {
    const { instructions } = options;
    const response = await fetch(`${url}/tare/v1/sessions`, jsonPost({ instructions }));
    assertEquals(response.status, 201);
    return new Witness((await response.json()).id, options);
  }

  async work(url: string): Promise<void> {
    for (;;) {
      // The classic policy has no pins.
      if (!this.#turnsRestart) await this.#pin(url);
      this.#lastTurn = {
        key: crypto.randomUUID(),
        body: JSON.stringify({ input: `Continue: ${++this.#sent}.` }),
      };
      assertEquals((await this.#play(url, this.#lastTurn)).at(-1), "completed");
    }
  }

  heard(): Promise<void> {
    this.#heard = Promise.withResolvers();
    return this.#heard.promise;
  }

  get pins(): number {
    return this.#pinned.size;
  }

  async check(url: string): Promise<Testimony> {
    // The stream ends with the running turn.
    for await (const _ of this.#received(await fetch(this.#url(url, "/events"))));
    await this.#sendAgain(url);
    const response = await fetch(this.#url(url));
    assertEquals(response.status, 200);
    const { messages, status } = await response.json();
    assertEquals(status, "idle");
    const received = await Array.fromAsync(readEvents(await fetch(this.#url(url, "/events"))));
    assertEquals(received.map(({ number }) => number), received.map((_, index) => index + 1));
    for (const [number, data] of this.#acknowledged) {
      assertEquals(received[number - 1]?.data, data, `event ${number} of session ${this.#id}`);
    }
    const events = received.map(({ data }): LoopEvent => JSON.parse(data));
    assertTurns(events);
    assertAnswered(messages);
    for (const text of this.#steered) {
      const matching = messages.filter(({ role, content }: Message) => role === "user" && content === text);
      assertEquals(matching.length, 1, `${text} was acknowledged`);
    }
    const { pins }: { readonly pins: readonly PinReport[] } = await (await fetch(this.#url(url, "/pins")))
      .json();
    for (const [place, wish] of this.#pinned) {
      assertEquals(pins.find((pin) => pin.place === place)?.wish, wish, `the pin of message ${place}`);
    }
    assertPrefixes(this.#requests(), { events, turnsRestart: this.#turnsRestart });
    for (const event of events) {
      if (event.type === "turn_end") assertEquals(event.reason, "completed");
    }
    return { events, resumed: received.filter(({ data }) => data.includes('"turn_resumed"')).length };
  }

  async #play(url: string, { key, body }: TurnRequest): Promise<string[]> {
    const last = Math.max(0, ...this.#acknowledged.keys());
    const response = await fetch(this.#url(url, "/turns"), jsonPost(body, { "idempotency-key": key }));
    const watching = this.#watch(url, last);
    const types: string[] = [];
    try {
      const steersAt = Math.floor(this.#random() * 60);
      for await (const event of this.#received(response)) {
        const { type, reason }: { type: string; reason?: string } = JSON.parse(event.data);
        types.push(reason ?? type);
        if (types.length === steersAt) await this.#steer(url);
      }
    } finally {
      await watching;
    }
    return types;
  }

  async #pin(url: string): Promise<void> {
    const { messages } = await (await fetch(this.#url(url))).json();
    const results = messages.flatMap(({ role }: Message, at: number) => role === "tool" ? [at] : []);
    const wish = this.#random() < 0.5 ? "retain" : "evict";
    const place = results.at(wish === "retain" ? -1 : -2);
    if (place === undefined || this.#pinned.has(place)) return;
    const response = await fetch(this.#url(url, "/pins"), jsonPost({ place, wish }));
    // Some results are no longer than their placeholder would be.
    if (response.status === 200) this.#pinned.set(place, wish);
    else assertEquals([response.status, wish], [400, "evict"]);
    await response.body?.cancel();
  }

  async #steer(url: string): Promise<void> {
    const input = `And also: ${++this.#sent}.`;
    const response = await fetch(this.#url(url, "/turns"), jsonPost({ input, steer: true }));
    if (response.status === 202) this.#steered.push(input);
    // The turn has just ended: that was the start of another one.
    else for await (const _ of this.#received(response));
    await response.body?.cancel();
  }

  /** Follows the turn as a second client, which reconnects after the last event. */
  async #watch(url: string, last: number): Promise<void> {
    try {
      const headers = { "last-event-id": String(last) };
      for await (const _ of this.#received(await fetch(this.#url(url, "/events"), { headers })));
    } catch (error) {
      // If the connection broke, the first client reports it too.
      if (!(error instanceof TypeError)) throw error;
    }
  }

  async *#received(response: Response): AsyncGenerator<ReceivedEvent, void> {
    for await (const event of readEvents(response)) {
      this.#heard.resolve();
      assertEquals(event.data, this.#acknowledged.get(event.number) ?? event.data);
      this.#acknowledged.set(event.number, event.data);
      yield event;
    }
  }

  /** Sends the last turn's request again, which starts no second turn. */
  async #sendAgain(url: string): Promise<void> {
    const turn = this.#lastTurn;
    this.#lastTurn = undefined;
    if (!turn) return;
    const response = await fetch(
      this.#url(url, "/turns"),
      jsonPost(turn.body, { "idempotency-key": turn.key }),
    );
    // Replayed, or played for the first time if the request had no effect.
    for await (const _ of this.#received(response));
  }

  #requests(): readonly RecordedRequest[] {
    return this.#provider.requestsOf(this.#instructions)
      .filter(({ messages }) => !asksForSummary(messages.at(-1) ?? ""));
  }

  #url(url: string, path = ""): string {
    return `${url}/tare/v1/sessions/${this.#id}${path}`;
  }
}

/** Checks that each turn has a start and an end, and none runs. */
export function assertTurns(events: readonly SessionEvent[]): void {
  const bounds = events.map(({ type }) => type).filter((type) =>
    type === "turn_start" || type === "turn_end"
  );
  assertEquals(bounds, bounds.map((_, index) => index % 2 === 0 ? "turn_start" : "turn_end"));
  assertEquals(bounds.length % 2, 0, "a turn has no end");
}

/** Checks that each reply is followed by exactly the answers to its calls, in order. */
export function assertAnswered(messages: readonly Message[]): void {
  let open: string[] = [];
  for (const message of messages) {
    if (message.role === "tool") {
      assertEquals(message.tool_call_id, open.shift());
    } else {
      assertEquals(open, [], "a call has no answer");
      if (message.role === "assistant") open = (message.tool_calls ?? []).map(({ id }) => id);
    }
  }
  assertEquals(open, [], "a call has no answer");
}

/** Checks that each request extends the one before, except after a rewrite event. */
function assertPrefixes(
  requests: readonly RecordedRequest[],
  { events, turnsRestart }: Pick<Testimony, "events"> & Pick<WitnessOptions, "turnsRestart">,
): void {
  const breaks = requests.filter((request, index) => {
    const before = requests[index - 1];
    if (turnsRestart && isOfUser(request.messages.at(-1))) return false;
    return before && !extendsRequest(before, request);
  });
  const rewrites = events.filter(isRewrite).length;
  assert(breaks.length <= rewrites, `${breaks.length} breaks of the prefix, ${rewrites} rewrites`);
}

/** Reports whether an event rewrites sent content. A truncated result was not sent yet. */
export function isRewrite(event: SessionEvent): boolean {
  return event.type === "context_rewritten" && event.mechanism !== "truncate";
}

function isOfUser(message: string | undefined): boolean {
  return message?.includes('"role":"user"') ?? false;
}

function extendsRequest(before: RecordedRequest, after: RecordedRequest): boolean {
  return before.tools === after.tools &&
    before.messages.every((message, index) => message === after.messages[index]);
}
