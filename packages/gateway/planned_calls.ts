import { Keys, type Reservation } from "@tare/session";
import { type Chat, Telemetry } from "@tare/session/telemetry";
import type { Message } from "@tare/messages";
import { listPrice, PromptTooLong, readTooLong } from "@tare/planner";
import { mostOfCall, providerOf } from "@tare/planner/internal";
import { RECALL_TOOL } from "@tare/prune";
import {
  joinBytes,
  peekField,
  type Protocol,
  ReplyTooLong,
  StreamedText,
  type WireReply,
} from "@tare/wire/internal";
import { bodyPieces, GrowingBytes, MAX_EVENT_BYTES, SseSplitter } from "@tare/wire/internal/sse";
import type { GatewayUpstream, SetOptions } from "./options.ts";
import type { GatewaySession } from "./sessions/session.ts";
import type { GatewayTurn, SentCall } from "./turn.ts";
import type { Call, Turns } from "./turns.ts";
import {
  answerHeaders,
  askUpstream,
  beginningOf,
  passOn,
  streamOf,
  upstreamOf,
  warned,
  withClientSignal,
} from "./http.ts";

/** Calls of a turn that only recall, after which one has no recall tool. */
const MAX_RECALL_CALLS = 64;

/** Replies that only repeat earlier recalls, after which one call has no recall tool. */
const MAX_REPEATED_RECALLS = 3;

/** Fewest bytes of JSON per token, usually; of a stream, whose events contain little text. */
const TOKEN_BYTES = 3;
const STREAMED_BYTES = 16;

const REFUSALS: readonly number[] = [400, 422];

/** Statuses of a request that may be too long. */
const TOO_LONG: readonly number[] = [400, 413];

/** Consequences of a failure, by its cause. */
const FAIL_OPEN: Readonly<Record<Exclude<Parameters<Telemetry["failedOpen"]>[0], "store">, string>> = {
  request: "the request was forwarded unchanged",
  session: "this session is forwarded unchanged from now on",
  reply: "the answer was forwarded unchanged",
  long_reply: "the answer is forwarded unchanged",
  stream: "the rest of the stream is forwarded unchanged",
  usage: "the cost of a call is unknown",
  recall: "a recall was not answered",
  memory: "a recall was not stored",
  keep_alive: "a prompt gets no cache keep-alive",
};

interface Exchange {
  readonly turn: GatewayTurn;
  readonly response: Response;
  readonly send: (bytes: Uint8Array<ArrayBuffer>) => Promise<Response>;
  readonly traced: TracedCalls | undefined;
  readonly abort: AbortController;
  /** The newest reply and its request, for cache keep-alive. Absent: there is none. */
  readonly held: {
    readonly reply: GrowingBytes;
    readonly request: Request;
    readonly body: () => Uint8Array<ArrayBuffer>;
  } | undefined;
}

/** Forwards model calls with planned prompts. If planning fails, a request is forwarded unchanged. */
export class PlannedCalls {
  readonly #turns: Turns;
  readonly #options: SetOptions;
  readonly #onError: (error: unknown) => void;

  constructor(turns: Turns, options: SetOptions) {
    this.#turns = turns;
    this.#options = options;
    this.#onError = options.onError ?? (() => {});
  }

  /** @throws the error of `fetch` if the upstream can't be reached. */
  async answer(protocol: Protocol, call: Call): Promise<Response> {
    const calls = new ReservedCalls();
    try {
      const response = await withClientSignal(
        call.signal,
        (abort) => this.#answer(protocol, call, { reserved: calls, abort }),
      );
      return calls.untilRead(response);
    } catch (error) {
      calls.release();
      throw error;
    }
  }

  async #answer(
    protocol: Protocol,
    call: Call,
    { reserved, abort }: { readonly reserved: ReservedCalls; readonly abort: AbortController },
  ): Promise<Response> {
    const { request } = call;
    const upstream = upstreamOf(protocol, this.#options);
    const { signal } = abort;
    const path = call.counts && protocol.countPath || protocol.path;
    let turn: GatewayTurn | undefined;
    let session: GatewaySession | undefined;
    const { telemetry } = this.#options;
    const traced = telemetry.isOn ? new TracedCalls({ telemetry, upstream, signal }) : undefined;
    let sent = call.bytes;
    const send = async (body: Uint8Array<ArrayBuffer>) => {
      sent = body;
      // The cost of the previous call is recorded by now.
      reserved.release();
      const held = await this.#reserve(protocol, { call, turn, body, signal });
      if (!("release" in held)) {
        const { status, message, code } = held;
        return protocol.refuse(status, message, code === "budget_spent" ? "insufficient_quota" : code);
      }
      reserved.hold(held);
      const headers = turn?.routeHeaders ?? {};
      const incoming = { upstream, request, body, auth: protocol.auth, headers, signal };
      const ask = () => askUpstream(path, incoming, this.#options);
      return await (call.counts || !traced ? ask() : traced.sent(turn, ask));
    };
    if (request.headers.get("x-tare")?.toLowerCase() === "off") {
      const response = this.#unplanned(protocol, call, await send(call.bytes));
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
        const at = new Date(this.#options.now()).toISOString();
        this.#turns.sessions.warnings.add({ at, session: turn!.session.id, message });
      }
    } catch (error) {
      if (signal.aborted) throw error;
      if (turn && error instanceof PromptTooLong) {
        this.#turns.sessions.save(turn.session);
        return refuseTooLong(protocol, error, turn);
      }
      turn = undefined;
      bytes = call.bytes;
      warning = this.#warn("request", error);
    }
    const planned = turn
      ? await this.#sendFitting(turn, { bytes, send, signal, counts: call.counts === true })
      : undefined;
    let response = planned?.response ?? await send(bytes);
    // After a rejection for length only a shorter body is worth sending: without a known limit, the client's own, which
    // lacks Tare's additions.
    const mayFit = !planned?.isTooLong || !planned.isFinal && call.bytes.length < bytes.length;
    if (turn?.edited && REFUSALS.includes(response.status) && mayFit) {
      const refusal = await beginningOf(response);
      const { status } = response;
      response = await send(call.bytes);
      if (response.ok) {
        const isLeft = !turn.oneShot && turn.session.refused();
        const cause = new Error(`the upstream answered ${status}: ${refusal}`);
        warning = this.#warn(isLeft ? "session" : "request", cause);
        turn = undefined;
      }
    }
    const isTooLong = !call.counts && TOO_LONG.includes(response.status);
    const shorter = isTooLong ? await turn?.withoutQuotes(await beginningOf(response.clone())) : undefined;
    if (shorter) {
      // Clients estimate lengths by the edited prompt's tokens, and may quote in full what was evicted from it.
      const again = await send(shorter);
      await (again.ok ? response : again).body?.cancel();
      if (again.ok) {
        response = again;
        warning = "the request was too long; evicted content that it quotes was omitted";
      }
    }
    if (turn && !response.ok) this.#turns.recordTotals(turn.session, { errors: 1 });
    const type = response.headers.get("content-type") ?? "";
    const isStream = type.includes("text/event-stream");
    if (!turn || call.counts || !response.ok || !(isStream || type.includes("json"))) {
      if (session && !call.counts) this.#turns.sessions.save(session);
      if (!turn) response = this.#unplanned(protocol, call, response);
      return passOn(traced?.over(response) ?? response, abort, { ...turn?.headers(), ...warned(warning) });
    }
    const held = this.#turns.allowsKeepAlive(turn)
      ? { reply: new GrowingBytes(), request, body: () => sent }
      : undefined;
    const read = this.#replies({ turn, response, send, traced, abort, held }, isStream);
    const replies = traced?.read(read) ?? read;
    if (!isStream) return await wholeAnswer(replies, { turn, response, abort, warning });
    const { status, statusText } = response;
    const headers = answerHeaders(response, { ...turn.headers(), ...warned(warning) });
    return new Response(streamOf(replies, abort), { status, statusText, headers });
  }

  /**
   * Reserves the highest cost of a call; nothing without a known price. Returns the refusal if the budget is exhausted.
   */
  async #reserve(
    protocol: Protocol,
    { call: { bytes, by, counts }, turn, body, signal }: {
      readonly call: Call;
      readonly turn: GatewayTurn | undefined;
      readonly body: Uint8Array<ArrayBuffer>;
      readonly signal: AbortSignal;
    },
  ): ReturnType<Keys["reserve"]> {
    const { keys } = this.#options;
    const { price = listPrice, profile } = upstreamOf(protocol, this.#options);
    const model = peekField(bytes, "model");
    if (!keys || by === undefined || counts || typeof model !== "string") return NOTHING_RESERVED;
    const cap = turn
      ? turn.request.replyTokens
      : protocol.replyFields.map((name) => peekField(body, name)).find((one) => typeof one === "number");
    const usage = {
      promptTokens: turn?.view?.promptTokens ?? Math.ceil(body.length / TOKEN_BYTES),
      outputTokens: Math.max(0, cap ?? Keys.MAX_OUTPUT_TOKENS),
    };
    const rates = {
      profile: typeof profile === "function" ? profile(model) : profile,
      price: price(model),
    };
    return await keys.reserve(by, mostOfCall(usage, rates).usd ?? 0, { signal });
  }

  async #sendFitting(
    turn: GatewayTurn,
    { bytes, send, signal, counts }: Pick<Exchange, "send"> & Pick<Call, "counts"> & {
      readonly bytes: Uint8Array<ArrayBuffer>;
      readonly signal: AbortSignal;
    },
  ): Promise<Sent> {
    const response = await send(bytes).catch((error) => {
      if (signal.aborted && !counts) this.#attempt("usage", () => this.#turns.unfinished(turn, {}, 0));
      throw error;
    });
    if (!TOO_LONG.includes(response.status)) return { response, isTooLong: false, isFinal: false };
    const words = await beginningOf(response.clone());
    const isTooLong = this.#turns.refused(turn, words);
    const refusal = { isTooLong, isFinal: readTooLong(words)?.windowTokens !== undefined };
    if (!isTooLong) return { response, ...refusal };
    let shorter: Uint8Array<ArrayBuffer>;
    try {
      shorter = await turn.prompt(signal, turn.isLast);
    } catch (error) {
      if (signal.aborted) throw error;
      if (!(error instanceof PromptTooLong)) this.#warn("request", error);
      // The upstream's own rejection is forwarded.
      return { response, ...refusal };
    }
    if (shorter.length >= bytes.length) return { response, ...refusal };
    await response.body?.cancel();
    const again = await send(shorter);
    if (TOO_LONG.includes(again.status)) this.#turns.refused(turn, await beginningOf(again.clone()));
    return { response: again, isTooLong: !again.ok, isFinal: true };
  }

  /**
   * Returns an answer that isn't recorded in a ledger. Its cost, estimated by bytes, counts toward the key's budget:
   * requests that can't be planned are not free.
   */
  #unplanned(protocol: Protocol, { bytes, by, counts }: Call, response: Response): Response {
    const { keys } = this.#options;
    const model = peekField(bytes, "model");
    const { price = listPrice } = upstreamOf(protocol, this.#options);
    const known = typeof model === "string" ? price(model) : undefined;
    if (!keys || by === undefined || counts || !known || !response.ok || !response.body) return response;
    const isStream = response.headers.get("content-type")?.includes("text/event-stream");
    const counted = response.body.pipeThrough(
      new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>({
        transform(piece, controller) {
          const output = piece.length / (isStream ? STREAMED_BYTES : TOKEN_BYTES);
          keys.paid(by, output * known.output / 1e6);
          controller.enqueue(piece);
        },
      }),
    );
    keys.paid(by, bytes.length / TOKEN_BYTES * known.input / 1e6);
    return new Response(counted, response);
  }

  async forward(
    protocol: Protocol,
    path: string,
    { request, signal }: Pick<Call, "request" | "signal">,
  ): Promise<Response> {
    const { body } = request;
    const upstream = upstreamOf(protocol, this.#options);
    return await withClientSignal(signal, async (abort) => {
      const call = { upstream, request, ...(body && { body }), auth: protocol.auth, signal: abort.signal };
      return passOn(await askUpstream(path, call, this.#options), abort);
    });
  }

  async forwardResponse(
    protocol: Protocol,
    path: string,
    { by, ...call }: Pick<Call, "request" | "signal" | "by">,
  ): Promise<Response> {
    const [id = "", ...rest] = path.split("/");
    const upstreamId = await this.#turns.upstreamId(protocol, id, { ...call, by });
    return await this.forward(protocol, [protocol.path, upstreamId, ...rest].join("/"), call);
  }

  /**
   * Yields the part of a turn's replies that is visible to the client: of one reply, or of several if the model only
   * recalls. Returns the upstream's last response and its usage.
   */
  async *#replies(
    { turn, response, send, traced, abort, held }: Exchange,
    isStream: boolean,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>, LastReply> {
    let last = response;
    let isEnded = false;
    try {
      for (let calls = 1;; calls++) {
        held?.reply.take();
        const read = yield* isStream
          ? this.#readStream(turn, last, held?.reply)
          : this.#readWhole(turn, last, held?.reply);
        if (!read) return { response: last };
        const { reply, written } = read;
        const sent = this.#attempt("usage", () => this.#turns.replied(turn, reply, written));
        traced?.replied(turn, reply, sent);
        const next = await this.#next(turn, { reply, calls, signal: abort.signal });
        if (!next) {
          const rest = turn.writer.finish();
          this.#attempt("memory", () => this.#turns.ended(turn, reply));
          isEnded = true;
          if (held) {
            const { request } = held;
            const [answer, body] = [held.reply.take(), held.body()];
            const { callsClient } = reply;
            const call = { request, body, response: last, reply: answer, isStream, callsClient };
            this.#attempt("keep_alive", () => this.#turns.waits(turn, call));
          }
          const saved = this.#turns.sessions.save(turn.session);
          // After the end of a stream the client may send its next request to another server.
          if (isStream) await saved;
          yield rest;
          return { response: last, usage: reply.usage, saved };
        }
        last = (await this.#sendFitting(turn, { bytes: next, send, signal: abort.signal })).response;
        if (last.ok) continue;
        if (REFUSALS.includes(last.status)) turn.session.restoreTools();
        this.#turns.recordTotals(turn.session, { errors: 1 });
        if (isStream) {
          yield turn.writer.fail(`The upstream answered ${last.status}: ${await beginningOf(last)}`);
        }
        return { response: last };
      }
    } finally {
      // After a cancellation the client may send its next request to another server.
      if (!isEnded) await this.#turns.sessions.save(turn.session);
    }
  }

  /**
   * Reads a whole reply. One that can't be read, or is too long, is forwarded unchanged, with no result. Usage is
   * recorded in any case.
   */
  async *#readWhole(
    turn: GatewayTurn,
    response: Response,
    held: GrowingBytes | undefined,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>, ReadReply | undefined> {
    const read = new GrowingBytes();
    let reply: WireReply | undefined;
    let bytesRead = 0;
    let isRead = true;
    const written = () => Math.ceil(bytesRead / TOKEN_BYTES);
    try {
      for await (const bytes of bodyPieces(response.body)) {
        bytesRead += bytes.length;
        if (isRead) read.add(bytes);
        else yield bytes.slice();
        if (!isRead || read.excess === undefined) continue;
        this.#warn("long_reply", new ReplyTooLong(`the reply ${read.excess}`));
        isRead = false;
        yield read.take();
      }
      if (!isRead) return undefined;
      const whole = read.take();
      held?.add(whole);
      try {
        reply = turn.writer.read(whole);
        return { reply, written: written() };
      } catch (error) {
        this.#warn("reply", error);
        yield whole;
        return undefined;
      }
    } finally {
      if (!reply) this.#attempt("usage", () => this.#turns.unfinished(turn, {}, written()));
    }
  }

  /**
   * Reads a streamed reply and yields its visible part. Returns `undefined` if it can't be read. Usage is recorded even
   * if the client cancels.
   */
  async *#readStream(
    turn: GatewayTurn,
    response: Response,
    held: GrowingBytes | undefined,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>, ReadReply | undefined> {
    const { writer, isRewritten, session } = turn;
    const splitter = new SseSplitter();
    const streamed = new StreamedText();
    let reply: WireReply | undefined;
    let isRead = true;
    let isUnsaved = isRewritten;
    try {
      for await (const piece of bodyPieces(response.body)) {
        // The buffer may be reused before the client reads these bytes.
        const bytes = piece.slice();
        streamed.add(bytes);
        if (!isRead) {
          yield bytes;
          continue;
        }
        const whole = splitter.cut(bytes);
        held?.add(whole);
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
        // The client may act on this reply: rewrites must be stored before a restart.
        if (isUnsaved) this.#turns.sessions.save(session);
        isUnsaved = false;
      }
      const rest = splitter.end();
      if (rest) yield joinBytes(writer.push(rest.bytes));
      if (!isRead) return undefined;
      reply = writer.end();
      return { reply, written: reply.usage ? 0 : streamed.count(turn.countTokens) };
    } finally {
      if (!reply) {
        this.#attempt("usage", () => {
          const { usage } = isRead ? writer.end() : {};
          this.#turns.unfinished(turn, usage ? { usage } : {}, streamed.count(turn.countTokens));
        });
      }
    }
  }

  /**
   * Returns the next call of a turn whose model only recalls; a reply that also calls the client's tools ends the turn.
   */
  async #next(
    turn: GatewayTurn,
    { reply, calls, signal }: {
      readonly reply: WireReply;
      readonly calls: number;
      readonly signal: AbortSignal;
    },
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    if (reply.recalls.length === 0 && !reply.isPaused) return undefined;
    try {
      await turn.recall(reply);
      const recalls = reply.recalls.filter(({ name }) => name === RECALL_TOOL.function.name).length;
      this.#turns.recordTotals(turn.session, { recalls });
      this.#options.telemetry.recalled(recalls);
      if (reply.callsClient || turn.isLast) return undefined;
      const isLast = calls === MAX_RECALL_CALLS || turn.repeatedRecalls === MAX_REPEATED_RECALLS;
      return await turn.prompt(signal, isLast);
    } catch (error) {
      if (signal.aborted) throw error;
      this.#warn("recall", error);
      return undefined;
    }
  }

  #attempt<T>(otherwise: keyof typeof FAIL_OPEN, work: () => T): T | undefined {
    try {
      return work();
    } catch (error) {
      this.#warn(otherwise, error);
      return undefined;
    }
  }

  #warn(cause: keyof typeof FAIL_OPEN, error: unknown): string {
    this.#options.telemetry.failedOpen(cause);
    const what = FAIL_OPEN[cause];
    const reason = error instanceof Error ? error.message : String(error);
    this.#onError(new Error(`Cannot process a model call: ${reason}; ${what}.`, { cause: error }));
    return `${what}: ${reason}`;
  }
}

const NOTHING_RESERVED: Reservation = { usd: 0, release() {} };

/** The reservations of one request's calls, one at a time. */
class ReservedCalls {
  #held: Reservation | undefined;

  hold(reservation: Reservation): void {
    if (reservation.usd > 0) this.#held = reservation;
  }

  release(): void {
    this.#held?.release();
    this.#held = undefined;
  }

  /** Releases the reservation at the answer's end. */
  untilRead(response: Response): Response {
    if (!this.#held) return response;
    const { body, status, statusText, headers } = response;
    if (!body) {
      this.release();
      return response;
    }
    const reader = body.getReader();
    const read = new ReadableStream<Uint8Array<ArrayBuffer>>({
      pull: async (controller) => {
        try {
          const { done, value } = await reader.read();
          if (!done) return controller.enqueue(value);
          this.release();
          controller.close();
        } catch (error) {
          this.release();
          throw error;
        }
      },
      cancel: async (reason) => {
        // The reader's own `cancel` works during a pending read, an iterator's `return` would wait for it.
        await reader.cancel(reason).catch(() => {});
        this.release();
      },
    }, { highWaterMark: 0 });
    return new Response(read, { status, statusText, headers });
  }
}

interface ReadReply {
  readonly reply: WireReply;
  /** Estimated output tokens; 0 if usage is reported. */
  readonly written: number;
}

interface LastReply {
  readonly response: Response;
  readonly usage?: WireReply["usage"];
  /** Resolves when the session is stored, or after a short wait. Absent: there is no store. */
  readonly saved?: Promise<void> | undefined;
}

interface Sent {
  readonly response: Response;
  readonly isTooLong: boolean;
  /** Whether a retry is pointless: the window is known, or a shorter prompt was sent. */
  readonly isFinal: boolean;
}

/**
 * Returns the error for a prompt beyond the window, in words that clients recognize: some then compact.
 */
function refuseTooLong(protocol: Protocol, error: PromptTooLong, turn: GatewayTurn): Response {
  const { promptTokens, windowTokens, message } = error;
  const words = `prompt is too long: ${promptTokens} tokens > ${windowTokens} maximum. ${message}`;
  const response = protocol.refuse(400, words, "context_length_exceeded");
  return new Response(response.body, {
    status: response.status,
    headers: { ...Object.fromEntries(response.headers), ...turn.headers() },
  });
}

/** Returns an answer that isn't streamed by the provider; it is streamed if it is too large for memory. */
async function wholeAnswer(
  replies: AsyncGenerator<Uint8Array<ArrayBuffer>, LastReply>,
  { turn, response: first, abort, warning }: {
    readonly turn: GatewayTurn;
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
      if (length > MAX_EVENT_BYTES) return answer(first, streamOf(concatenate(pieces, replies), abort));
      continue;
    }
    const { response, usage, saved } = value;
    if (!response.ok) return passOn(response, abort, turn.headers());
    const reported = usage && { "x-tare-cached-reported": String(usage.cachedTokens) };
    const body = joinBytes(pieces);
    return answer(response, saved ? streamOf(endingWith(body, saved), abort) : body, reported);
  }
}

async function* endingWith(
  bytes: Uint8Array<ArrayBuffer>,
  work: Promise<void>,
): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  yield bytes;
  await work;
}

async function* concatenate<T>(begun: readonly T[], rest: AsyncIterable<T>): AsyncGenerator<T> {
  yield* begun;
  yield* rest;
}

/** Traces of the upstream's calls of one request, one at a time. */
class TracedCalls {
  readonly #options: ConstructorParameters<typeof TracedCalls>[0];
  /** Later calls run when the answer is read, outside of the request's context. */
  readonly #within = Telemetry.inThisTrace();
  #chat: Chat | undefined;

  constructor(options: {
    readonly telemetry: Telemetry;
    readonly upstream: GatewayUpstream;
    readonly signal: AbortSignal;
  }) {
    this.#options = options;
    options.signal.addEventListener("abort", () => this.end(), { once: true });
  }

  /** Sends a request, of a turn or none. @throws the error of `send`. */
  async sent(turn: GatewayTurn | undefined, send: () => Promise<Response>): Promise<Response> {
    const { telemetry, upstream } = this.#options;
    this.end();
    const model = turn?.request.model;
    const { profile } = upstream;
    const rules = typeof profile === "function" ? profile(model ?? "") : profile;
    const about = {
      provider: providerOf(rules),
      model,
      conversation: turn?.session.id,
      address: new URL(upstream.baseURL),
      prompt: turn?.view,
    };
    const chat = this.#chat = this.#within(() => telemetry.chat(about));
    try {
      const response = await chat.within(send);
      const type = response.headers.get("content-type") ?? "";
      if (type.includes("text/event-stream")) chat.set({ "gen_ai.request.stream": true });
      if (!response.ok) chat.end(String(response.status));
      return response;
    } catch (error) {
      this.end(Telemetry.errorTypeOf(error));
      throw error;
    }
  }

  replied({ view, request: { protocol } }: GatewayTurn, reply: WireReply, sent: SentCall | undefined): void {
    const chat = this.#chat;
    if (!chat) return;
    const { usage, id, finish: finishReason, items } = reply;
    const messages = () => items.flatMap((json) => messagesOf(protocol, json));
    chat.replied({ messages, finishReason, id });
    if (usage) chat.took(usage);
    if (view) chat.planned({ ...view, entry: sent?.entry });
    chat.end();
  }

  end(errorType?: string): void {
    this.#chat?.end(this.#options.signal.aborted ? "cancelled" : errorType);
  }

  async *read<T, Last>(replies: AsyncGenerator<T, Last>): AsyncGenerator<T, Last> {
    let failure: string | undefined;
    try {
      return yield* replies;
    } catch (error) {
      failure = Telemetry.errorTypeOf(error);
      throw error;
    } finally {
      this.end(failure);
    }
  }

  /** The answer's end ends the call. */
  over(response: Response): Response {
    if (!this.#chat) return response;
    if (!response.body) {
      this.end();
      return response;
    }
    const { readable, writable } = new TransformStream<Uint8Array<ArrayBuffer>>();
    response.body.pipeTo(writable).then(() => this.end(), (error) => this.end(Telemetry.errorTypeOf(error)));
    return new Response(readable, response);
  }
}

/** Returns the messages of a reply's item; none if it is of an unknown type. */
function messagesOf(protocol: Protocol, json: string): readonly Message[] {
  try {
    return protocol.readItem(JSON.parse(json)).map(({ message }) => message);
  } catch {
    return [];
  }
}
