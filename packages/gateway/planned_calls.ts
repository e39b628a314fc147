import {
  bodyPieces,
  GrowingBytes,
  inMebibytes,
  joinBytes,
  MAX_EVENT_BYTES,
  type Protocol,
  ReplyTooLong,
  SseSplitter,
  type WireReply,
} from "@tare/wire";
import { type LedgerReport, type Overview, type Sums, ToldWarnings } from "@tare/conversation/report";
import { Telemetry } from "@tare/conversation/telemetry";
import type { GatewayOptions } from "./options.ts";
import { type Conversations, conversationsOf } from "./sessions/conversations.ts";
import type { GatewaySession } from "./sessions/session.ts";
import { TracedCalls } from "./traced_calls.ts";
import type { GatewayTurn } from "./turn.ts";
import { type Call, Turns } from "./turns.ts";
import {
  answerHeaders,
  askUpstream,
  beginningOf,
  passOn,
  streamOf,
  type UpstreamCall,
  upstreamOf,
  warned,
} from "./upstream.ts";

/** So many calls of a turn may do nothing but recall; then one can't. */
const MAX_RECALL_CALLS = 64;

/** So many of them may ask for nothing new: a model that recalls the same again and again doesn't get on. */
const MAX_REPEATED_RECALLS = 3;

/** With these an upstream says that it doesn't take a request as it is. */
const REFUSALS: readonly number[] = [400, 422];

/** With these it says, among other things, that a request is too long. */
const TOO_LONG: readonly number[] = [400, 413];

/** What becomes of a request, or its answer, that can't be planned or read. */
const FAIL_OPEN: Readonly<Record<Exclude<Parameters<Telemetry["failedOpen"]>[0], "store">, string>> = {
  request: "the request was sent on as it came",
  session: "this session is sent on as it comes",
  reply: "the answer was passed on as it came",
  long_reply: "the answer is passed on as it comes",
  stream: "the rest of the stream is passed on as it comes",
  usage: "what a call cost is not known",
  recall: "a recall was not answered",
  memory: "a recall will not be remembered",
};

/** What an answer is made from. */
interface Exchange {
  readonly turn: GatewayTurn;
  /** The upstream's first reply. */
  readonly response: Response;
  readonly send: (bytes: Uint8Array<ArrayBuffer>) => Promise<Response>;
  /** Tells of the calls, if anybody hears. */
  readonly traced: TracedCalls | undefined;
  readonly abort: AbortController;
}

/**
 * Passes model calls on to an upstream, and lets the planner decide what of each prompt it gets to see. Whatever goes
 * wrong in doing so, the request goes upstream as the client sent it.
 */
export class PlannedCalls {
  readonly #options: GatewayOptions;
  readonly #onError: (error: unknown) => void;
  readonly #turns: Turns;
  readonly #telemetry: Telemetry;
  readonly #warnings = new ToldWarnings();

  /** Calls that have seen nothing yet. */
  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#onError = options.onError ?? (() => {});
    this.#telemetry = options.telemetry ?? new Telemetry("@tare/gateway");
    this.#turns = new Turns({ ...options, telemetry: this.#telemetry });
  }

  /** What sessions cost. @throws {StoreError} */
  async ledger(): Promise<LedgerReport> {
    return (await this.#turns.accounts()).report();
  }

  /** What was saved, and what people were told. @throws {StoreError} */
  async overview(): Promise<Overview> {
    return (await this.#turns.accounts()).overview(this.#now(), this.#warnings.list);
  }

  #book(session: GatewaySession, more: Partial<Sums>): void {
    this.#turns.book(session, more);
  }

  /** Keeps a session: resolves once that is done, or after a short while; never rejects. Nothing if none are kept. */
  save(session: GatewaySession): Promise<void> | undefined {
    return this.#turns.save(session);
  }

  /** Waits until all sessions are kept, for a while. Never rejects. */
  close(): Promise<void> {
    return this.#turns.close();
  }

  #now(): number {
    return (this.#options.now ?? Date.now)();
  }

  /** Its conversations, as they are shown. */
  get conversations(): Conversations {
    return conversationsOf(this.#turns);
  }

  /** Answers a request. @throws what `fetch` throws if the upstream can't be reached. */
  async answer(protocol: Protocol, call: Call): Promise<Response> {
    const { request } = call;
    const upstream = upstreamOf(protocol, this.#options);
    const abort = new AbortController();
    const leave = () => abort.abort(request.signal.reason);
    if (request.signal.aborted) leave();
    else request.signal.addEventListener("abort", leave, { once: true });
    const { signal } = abort;
    const path = call.counts && protocol.countPath || protocol.path;
    let turn: GatewayTurn | undefined;
    let session: GatewaySession | undefined;
    const telemetry = this.#telemetry;
    const traced = telemetry.isOn ? new TracedCalls({ telemetry, upstream, signal }) : undefined;
    const send = (body: Uint8Array<ArrayBuffer>) => {
      const ask = () => this.#ask(path, { upstream, request, body, auth: protocol.auth, signal });
      return call.counts || !traced ? ask() : traced.sent(turn, ask);
    };
    if (request.headers.get("x-tare")?.toLowerCase() === "off") {
      const response = await send(call.bytes);
      return passOn(traced?.over(response) ?? response, abort);
    }
    let { bytes } = call;
    let warning: string | undefined;
    try {
      turn = await this.#turns.begin(protocol, call);
      session = turn?.session;
      if (turn) bytes = await turn.prompt(signal);
      for (const message of turn?.warnings ?? []) {
        this.#onError(new Error(message));
        const at = new Date(this.#now()).toISOString();
        this.#warnings.add({ at, session: turn!.session.id, message });
      }
    } catch (error) {
      if (signal.aborted) throw error;
      turn = undefined;
      bytes = call.bytes;
      warning = this.#warn("request", error);
    }
    let response = await send(bytes);
    if (turn?.edited && REFUSALS.includes(response.status)) {
      const refusal = await beginningOf(response);
      const { status } = response;
      response = await send(call.bytes);
      if (response.ok) {
        const isLeft = turn.session.refused();
        const cause = new Error(`the upstream answered ${status}: ${refusal}`);
        warning = this.#warn(isLeft ? "session" : "request", cause);
        turn = undefined;
      }
    }
    const isTooLong = !call.counts && TOO_LONG.includes(response.status);
    const shorter = isTooLong ? await turn?.withoutQuotes() : undefined;
    if (shorter) {
      // The client was told how long the edited prompt is, and may quote what it took that from at full length.
      const again = await send(shorter);
      await (again.ok ? response : again).body?.cancel();
      if (again.ok) {
        response = again;
        warning = "the request was refused as it came; what had left the prompt that it quotes was left out";
      }
    }
    if (turn && !response.ok) this.#book(turn.session, { errors: 1 });
    const type = response.headers.get("content-type") ?? "";
    const isStream = type.includes("text/event-stream");
    if (!turn || call.counts || !response.ok || !(isStream || type.includes("json"))) {
      if (session && !call.counts) this.save(session);
      return passOn(traced?.over(response) ?? response, abort, { ...turn?.headers(), ...warned(warning) });
    }
    const read = this.#replies({ turn, response, send, traced, abort }, isStream);
    const replies = traced?.read(read) ?? read;
    if (!isStream) return await wholeAnswer(replies, { turn, response, abort, warning });
    const { status, statusText } = response;
    const headers = answerHeaders(response, { ...turn.headers(), ...warned(warning) });
    return new Response(streamOf(replies, abort), { status, statusText, headers });
  }

  /** Passes a request without a plan on to the upstream of a protocol, such as one for the list of models, as it comes. */
  async forward(protocol: Protocol, path: string, request: Request): Promise<Response> {
    const { body, signal } = request;
    const upstream = upstreamOf(protocol, this.#options);
    const call = { upstream, request, ...(body && { body }), auth: protocol.auth, signal };
    return passOn(await this.#ask(path, call), new AbortController());
  }

  /** Passes a request for a response on, which may have another id at the upstream. */
  async forwardResponse(protocol: Protocol, path: string, request: Request): Promise<Response> {
    const [id = "", ...rest] = path.split("/");
    const upstreamId = await this.#turns.upstreamId(protocol, id, request);
    return await this.forward(protocol, [protocol.path, upstreamId, ...rest].join("/"), request);
  }

  #ask(path: string, call: UpstreamCall): Promise<Response> {
    return askUpstream(path, call, this.#options);
  }

  /**
   * What the client gets to see of a turn's replies: one, or if its model only recalls, more. Gives the upstream's last
   * response and what that took.
   */
  async *#replies(
    { turn, response, send, traced, abort }: Exchange,
    isStream: boolean,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>, LastReply> {
    let last = response;
    let isEnded = false;
    try {
      for (let calls = 1;; calls++) {
        const reply = isStream ? yield* this.#readStream(turn, last) : yield* this.#readWhole(turn, last);
        if (!reply) return { response: last };
        const sent = this.#attempt("usage", () => this.#turns.replied(turn, reply));
        traced?.replied(turn, reply, sent);
        const next = await this.#next(turn, { reply, calls, signal: abort.signal });
        if (!next) {
          const rest = turn.writer.finish();
          this.#attempt("memory", () => this.#turns.ended(turn, reply));
          isEnded = true;
          const saved = this.save(turn.session);
          // Whoever has heard the end may ask the next server.
          if (isStream) await saved;
          yield rest;
          return { response: last, usage: reply.usage, saved };
        }
        last = await send(next);
        if (last.ok) continue;
        this.#book(turn.session, { errors: 1 });
        if (isStream) {
          yield turn.writer.fail(`The upstream answered ${last.status}: ${await beginningOf(last)}`);
        }
        return { response: last };
      }
    } finally {
      if (!isEnded) this.save(turn.session);
    }
  }

  /** Reads a whole reply. Passes one that can't be read, or is too long, on as it comes, and gives nothing. */
  async *#readWhole(
    { writer }: GatewayTurn,
    response: Response,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>, WireReply | undefined> {
    const read = new GrowingBytes();
    let isRead = true;
    for await (const bytes of bodyPieces(response.body)) {
      if (isRead) read.add(bytes);
      else yield bytes.slice();
      if (!isRead || read.length <= MAX_EVENT_BYTES) continue;
      const limit = new ReplyTooLong(`the reply has more than ${inMebibytes(MAX_EVENT_BYTES)}`);
      this.#warn("long_reply", limit);
      isRead = false;
      yield read.take();
    }
    if (!isRead) return undefined;
    const whole = read.take();
    try {
      return writer.read(whole);
    } catch (error) {
      this.#warn("reply", error);
      yield whole;
      return undefined;
    }
  }

  /** Reads a streamed reply, and lets pass what the client may see of it. Gives nothing if it can't be read. */
  async *#readStream(
    { writer, isRewritten, session }: GatewayTurn,
    response: Response,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>, WireReply | undefined> {
    const splitter = new SseSplitter();
    let isRead = true;
    let isUnsaved = isRewritten;
    for await (const piece of bodyPieces(response.body)) {
      // What is passed on is read when the client has time.
      const bytes = piece.slice();
      if (!isRead) {
        yield bytes;
        continue;
      }
      const whole = splitter.cut(bytes);
      let seen = [whole];
      try {
        if (splitter.excess !== undefined) throw new ReplyTooLong(splitter.excess);
        seen = writer.push(whole);
      } catch (error) {
        this.#warn("stream", error);
        isRead = false;
        seen.push(splitter.end()?.bytes ?? new Uint8Array());
      }
      const joined = joinBytes(seen);
      if (joined.length === 0) continue;
      yield joined;
      // The client has begun to read. Should the process end now, the next one must know what was rewritten.
      if (isUnsaved) this.save(session);
      isUnsaved = false;
    }
    const rest = splitter.end();
    if (rest) yield joinBytes(writer.push(rest.bytes));
    return isRead ? writer.end() : undefined;
  }

  /** The next call of a turn, if its model only recalls; a reply that calls the client's tools too ends the turn. */
  async #next(
    turn: GatewayTurn,
    { reply, calls, signal }: {
      readonly reply: WireReply;
      readonly calls: number;
      readonly signal: AbortSignal;
    },
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    if (reply.recalls.length === 0) return undefined;
    try {
      await turn.recall(reply);
      this.#book(turn.session, { recalls: reply.recalls.length });
      this.#telemetry.recalled(reply.recalls.length);
      if (reply.callsClient || turn.isLast) return undefined;
      const isLast = calls === MAX_RECALL_CALLS || turn.repeatedRecalls === MAX_REPEATED_RECALLS;
      return await turn.prompt(signal, isLast);
    } catch (error) {
      if (signal.aborted) throw error;
      this.#warn("recall", error);
      return undefined;
    }
  }

  /** Does what the client's answer doesn't depend on. */
  #attempt<T>(otherwise: keyof typeof FAIL_OPEN, work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      this.#warn(otherwise, error);
      return undefined;
    }
  }

  #warn(cause: keyof typeof FAIL_OPEN, error: unknown): string {
    this.#telemetry.failedOpen(cause);
    const what = FAIL_OPEN[cause];
    const reason = error instanceof Error ? error.message : String(error);
    this.#onError(new Error(`Cannot plan: ${reason}; ${what}.`, { cause: error }));
    return `${what}: ${reason}`;
  }
}

/** How a turn's replies ended. */
interface LastReply {
  readonly response: Response;
  /** What the last call took; nothing if it failed, or didn't tell. */
  readonly usage?: WireReply["usage"];
  /** Resolves when its session is kept, or after a short while. Absent: nothing is kept, or nobody need wait. */
  readonly saved?: Promise<void> | undefined;
}

/** An answer that isn't streamed, unless it is too long to be held. */
async function wholeAnswer(
  replies: AsyncGenerator<Uint8Array<ArrayBuffer>, LastReply>,
  { turn, response: first, abort, warning }: {
    readonly turn: GatewayTurn;
    /** The upstream's first reply. */
    readonly response: Response;
    readonly abort: AbortController;
    readonly warning: string | undefined;
  },
): Promise<Response> {
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let length = 0;
  const answer = (response: Response, body: BodyInit, more: Readonly<Record<string, string>> = {}) => {
    const { status, statusText } = response;
    const headers = answerHeaders(response, { ...turn.headers(), ...more, ...warned(warning) });
    return new Response(body, { status, statusText, headers });
  };
  for (;;) {
    const { done, value } = await replies.next();
    if (!done) {
      pieces.push(value);
      length += value.length;
      if (length > MAX_EVENT_BYTES) return answer(first, streamOf(goOn(pieces, replies), abort));
      continue;
    }
    const { response, usage, saved } = value;
    if (!response.ok) return passOn(response, abort, turn.headers());
    const reported = usage && { "x-tare-cached-reported": String(usage.cachedTokens) };
    const body = joinBytes(pieces);
    return answer(response, saved ? streamOf(endingWith(body, saved), abort) : body, reported);
  }
}

/** These bytes at once, and the end when the work is done. */
async function* endingWith(
  bytes: Uint8Array<ArrayBuffer>,
  work: Promise<void>,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  yield bytes;
  await work;
}

async function* goOn<T>(begun: readonly T[], rest: AsyncIterable<T>): AsyncGenerator<T> {
  yield* begun;
  yield* rest;
}
