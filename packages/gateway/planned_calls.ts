import { createHash } from "node:crypto";
import type { CountTokens } from "@tare/messages";
import { type ForkableSession, promptSession } from "@tare/planner";
import { RECALL_TOOL } from "@tare/prune";
import { joinBytes, type Protocol, readBody, readRequest, type WireReply } from "@tare/wire";
import { GatewayLedger } from "./ledger.ts";
import { Memory } from "./memory.ts";
import type { GatewayOptions } from "./options.ts";
import { Sessions } from "./sessions.ts";
import { GatewayTurn } from "./turn.ts";
import { answerHeaders, askUpstream, passOn, streamOf, type UpstreamCall, warned } from "./upstream.ts";

/** So many calls of a turn may do nothing but recall. */
const MAX_RECALL_CALLS = 8;

/** With these an upstream says that it doesn't take a request as it is. */
const REFUSALS: readonly number[] = [400, 422];

/** A request for the upstream, and its body. */
interface Call {
  readonly request: Request;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** What an answer is made from. */
interface Exchange {
  readonly turn: GatewayTurn;
  /** The upstream's first reply. */
  readonly response: Response;
  readonly send: (bytes: Uint8Array<ArrayBuffer>) => Promise<Response>;
  readonly abort: AbortController;
}

/**
 * Passes model calls on to an upstream, and lets the planner decide what of each prompt it gets to see. Whatever goes
 * wrong in doing so, the request goes upstream as the client sent it.
 */
export class PlannedCalls {
  readonly ledger: GatewayLedger = new GatewayLedger();
  readonly #options: GatewayOptions;
  readonly #onError: (error: unknown) => void;
  readonly #memory: Memory;
  #sessions: Sessions | undefined;

  /** Calls that have seen nothing yet. */
  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#onError = options.onError ?? (() => {});
    this.#memory = new Memory({ maxBytes: options.maxMemoryBytes ?? 512 * 2 ** 20 });
  }

  /** Answers a request. @throws what `fetch` throws if the upstream can't be reached. */
  async answer(protocol: Protocol, call: Call): Promise<Response> {
    const { request } = call;
    const abort = new AbortController();
    const leave = () => abort.abort(request.signal.reason);
    if (request.signal.aborted) leave();
    else request.signal.addEventListener("abort", leave, { once: true });
    const { signal } = abort;
    const send = (body: Uint8Array<ArrayBuffer>) =>
      this.#ask(protocol.path, { request, body, auth: protocol.auth, signal });
    if (request.headers.get("x-tare")?.toLowerCase() === "off") return passOn(await send(call.bytes), abort);
    let turn: GatewayTurn | undefined;
    let { bytes } = call;
    let warning: string | undefined;
    try {
      turn = await this.#begin(protocol, call);
      if (turn) bytes = await turn.prompt(signal);
      for (const told of turn?.warnings ?? []) this.#onError(new Error(told));
    } catch (error) {
      if (signal.aborted) throw error;
      turn = undefined;
      bytes = call.bytes;
      warning = this.#warn("the request was sent on as it came", error);
    }
    let response = await send(bytes);
    if (turn?.edited && REFUSALS.includes(response.status)) {
      const refusal = await response.text();
      const { status } = response;
      response = await send(call.bytes);
      // If it takes the client's own, that's what it gets from now on.
      if (response.ok) {
        revert(turn);
        const cause = new Error(`the upstream answered ${status}: ${refusal.slice(0, 500)}`);
        warning = this.#warn("this session is sent on as it comes", cause);
        turn = undefined;
      }
    }
    if (turn && !response.ok) this.ledger.count(turn.group, "errors");
    const type = response.headers.get("content-type") ?? "";
    const isStream = type.includes("text/event-stream");
    if (!turn || !response.ok || !(isStream || type.includes("json"))) {
      return passOn(response, abort, { ...turn?.headers(), ...warned(warning) });
    }
    const replies = this.#replies({ turn, response, send, abort }, isStream);
    if (!isStream) return await wholeAnswer(replies, { turn, abort });
    const { status, statusText } = response;
    const headers = answerHeaders(response, turn.headers());
    return new Response(streamOf(replies, abort), { status, statusText, headers });
  }

  /** Passes a request without a plan on, such as one for the list of models. */
  async forward(path: string, request: Request): Promise<Response> {
    return passOn(await this.#ask(path, { request, signal: request.signal }), new AbortController());
  }

  /** Passes a request for a response on, which may have another id at the upstream. */
  async forwardResponse(protocol: Protocol, id: string, request: Request): Promise<Response> {
    const known = this.#memory.followed(clientOf(protocol, request), id);
    const upstreamId = known ? encodeURIComponent(known.upstreamId) : id;
    return await this.forward(`${protocol.path}/${upstreamId}`, request);
  }

  #ask(path: string, call: UpstreamCall): Promise<Response> {
    return askUpstream(path, call, this.#options);
  }

  /** Finds the session of a request; nothing for a request that can't be planned. */
  async #begin(protocol: Protocol, { request, bytes }: Call): Promise<GatewayTurn | undefined> {
    const { recall: offers = true, now = Date.now } = this.#options;
    const body = readBody(bytes);
    const { key, name, follows, isStateful, isDetached } = protocol.readHints(body, request.headers);
    if (isDetached) return undefined;
    const countTokens = await this.#options.countTokens();
    const client = clientOf(protocol, request);
    const readers = this.#memory.readers(client);
    const wire = readRequest(body, protocol, readers);
    const followed = follows === undefined ? undefined : this.#memory.followed(client, follows);
    const sessions = this.#sessionsWith(countTokens);
    const session = sessions.get(followed?.sessionId ?? "") ?? sessions.find({
      scope: JSON.stringify([client, key ?? null]),
      name: request.headers.get("x-tare-session") ?? name,
      items: wire.items,
    });
    const recall = offers && !session.control && !session.isReverted && (wire.tools ?? []).length > 0 &&
      wire.tools?.every(({ definition }) => definition?.function.name !== RECALL_TOOL.function.name);
    return new GatewayTurn({
      client,
      session,
      request: wire,
      recall: recall === true,
      follows: followed,
      isStateful,
      countTokens,
      readers,
      seen: (id, parts) => this.#memory.refer(client, id, parts),
      now,
    });
  }

  #sessionsWith(countTokens: CountTokens): Sessions {
    const { control, profile, windowTokens, recall = true, ...options } = this.#options;
    const { policy, mechanisms = {}, truncateTokens, alwaysFull, triggers } = options;
    const { truncate = true } = mechanisms;
    return this.#sessions ??= new Sessions({
      prompts: ({ archive, control }): ForkableSession =>
        promptSession({
          ...{ profile, archive, countTokens, windowTokens, policy, truncateTokens, alwaysFull, triggers },
          mechanisms: control ? NOTHING : { ...mechanisms, truncate: truncate && recall },
        }),
      control,
      begun: ({ control }) => this.ledger.count(control ? "control" : "planned", "sessions"),
      maxBytes: this.#memory.sessionBytes,
    });
  }

  /**
   * What the client gets to see of a turn's replies: one, or if its model only recalls, more. Gives the upstream's last
   * response and what that took.
   */
  async *#replies(
    { turn, response, send, abort }: Exchange,
    isStream: boolean,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>, LastReply> {
    let last = response;
    for (let calls = 1;; calls++) {
      const reply = isStream ? yield* this.#readStream(turn, last) : yield* this.#readWhole(turn, last);
      if (!reply) return { response: last };
      this.#account(turn, reply);
      const next = await this.#next(turn, { reply, calls, signal: abort.signal });
      if (!next) {
        const rest = turn.writer.finish();
        this.#end(turn, reply);
        yield rest;
        return { response: last, usage: reply.usage };
      }
      last = await send(next);
      if (last.ok) continue;
      this.ledger.count(turn.group, "errors");
      if (isStream) {
        const said = (await last.text()).slice(0, 1_000);
        yield turn.writer.fail(`The upstream answered ${last.status}: ${said}`);
      }
      return { response: last };
    }
  }

  /** Reads a whole reply. Passes one that can't be read on as it is, and gives nothing. */
  async *#readWhole(
    { writer }: GatewayTurn,
    response: Response,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>, WireReply | undefined> {
    const bytes = await response.bytes();
    try {
      return writer.read(bytes);
    } catch (error) {
      this.#warn("the answer was passed on as it came", error);
      yield bytes;
      return undefined;
    }
  }

  /** Reads a streamed reply, and lets pass what the client may see of it. Gives nothing if it can't be read. */
  async *#readStream(
    { writer }: GatewayTurn,
    response: Response,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>, WireReply | undefined> {
    let isRead = true;
    for await (const bytes of response.body ?? []) {
      let seen = [bytes];
      if (isRead) {
        try {
          seen = writer.push(bytes);
        } catch (error) {
          this.#warn("the rest of the stream is passed on as it comes", error);
          isRead = false;
        }
      }
      if (seen.length > 0) yield joinBytes(seen);
    }
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
      this.ledger.count(turn.group, "recalls", reply.recalls.length);
      if (reply.callsClient || calls >= MAX_RECALL_CALLS) return undefined;
      return await turn.prompt(signal);
    } catch (error) {
      if (signal.aborted) throw error;
      this.#warn("a recall was not answered", error);
      return undefined;
    }
  }

  #account(turn: GatewayTurn, reply: WireReply): void {
    try {
      const usage = turn.sent(reply);
      if (usage) this.ledger.call(turn.group, { usage, profile: turn.session.prompts.profile });
    } catch (error) {
      this.#warn("what a call cost is not known", error);
    }
  }

  #end(turn: GatewayTurn, { id: upstreamId, callsClient, recalls }: WireReply): void {
    try {
      turn.remember();
      this.#sessions?.weigh(turn.session);
      const { writer: { id }, session, client } = turn;
      if (id === undefined || upstreamId === undefined) return;
      const owed = callsClient && recalls.length > 0 ? turn.lastAnswers : [];
      this.#memory.follow(client, id, { sessionId: session.id, upstreamId, owed });
    } catch (error) {
      this.#warn("a recall will not be remembered", error);
    }
  }

  #warn(what: string, error: unknown): string {
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
}

/** An answer that isn't streamed. */
async function wholeAnswer(
  replies: AsyncGenerator<Uint8Array<ArrayBuffer>, LastReply>,
  { turn, abort }: Pick<Exchange, "turn" | "abort">,
): Promise<Response> {
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  for (;;) {
    const { done, value } = await replies.next();
    if (!done) {
      pieces.push(value);
      continue;
    }
    const { response, usage } = value;
    if (!response.ok) return passOn(response, abort, turn.headers());
    const reported = usage && { "x-tare-cached-reported": String(usage.cachedTokens) };
    const { status, statusText } = response;
    const headers = answerHeaders(response, { ...turn.headers(), ...reported });
    return new Response(joinBytes(pieces), { status, statusText, headers });
  }
}

/** From now on the session is sent on as it comes. */
function revert({ session }: GatewayTurn): void {
  session.isReverted = true;
  session.hidden = [];
  session.prompts.revert();
}

const NOTHING = { context: false, prune: false, schemas: false, truncate: false };

/** Tells clients apart by their keys, which are kept nowhere. */
function clientOf({ name, auth }: Protocol, { headers }: Request): string {
  const keys = auth.headers.map((header) => headers.get(header) ?? "");
  return `${name} ${createHash("sha256").update(JSON.stringify(keys)).digest("base64")}`;
}
