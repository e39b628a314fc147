import { createHash } from "node:crypto";
import { countRequestTokens, type CountTokens } from "@tare/messages";
import { BY_AGE, KEEP_WANTED, Planner, type PlannerState, type Retention } from "@tare/planner";
import { RECALL_TOOL } from "@tare/prune";
import { countInSlices } from "./count_in_slices.ts";
import { KnownJson } from "./known_json.ts";
import { GatewayLedger } from "./ledger.ts";
import type { GatewayOptions } from "./options.ts";
import type { GatewaySession } from "./session.ts";
import { GatewaySessions, type PlannedSession } from "./sessions.ts";
import { type Followed, GatewayTurn } from "./turn.ts";
import { plannedTools } from "./upstream_prompt.ts";
import { passOn, streamOf, warned, withHeaders } from "./pass_on.ts";
import { answerHeaders, upstreamHeaders } from "./upstream.ts";
import {
  joinBytes,
  type KnownParts,
  readField,
  readWireBody,
  readWireRequest,
  type WireFormat,
  type WireReply,
} from "@tare/wire";

/** So many calls of a turn may do nothing but recall. */
const MAX_RECALL_CALLS = 8;

/** Responses whose recalls were answered and not yet told. */
const MAX_OWED = 10_000;

/** Nothing leaves. */
const LEAVE_ALL: Retention = { ...BY_AGE, protectTokens: Infinity };

/**
 * Passes model calls on to an upstream, and lets the planner decide what of each prompt it gets to see. Whatever goes
 * wrong in doing so, the request goes upstream as the client sent it.
 */
export class Calls {
  /** What sessions cost. */
  readonly ledger: GatewayLedger = new GatewayLedger();
  readonly #options: GatewayOptions;
  readonly #known: KnownParts = {
    messages: new KnownJson({ maxBytes: 128 * 2 ** 20 }),
    tools: new KnownJson({ maxBytes: 16 * 2 ** 20 }),
  };
  readonly #onError: (error: unknown) => void;
  #sessions: GatewaySessions | undefined;
  /** Sessions by the ids of the responses that they may be continued with, and what those still wait for. */
  readonly #responses = new Map<string, FollowedResponse>();

  /** A gateway that has seen nothing yet. */
  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#onError = options.onError ?? (() => {});
  }

  /** Answers a request. @throws what `fetch` throws if the upstream can't be reached. */
  async answer(format: WireFormat, call: Call): Promise<Response> {
    const { request } = call;
    const abort = new AbortController();
    const leave = () => abort.abort(request.signal.reason);
    if (request.signal.aborted) leave();
    else request.signal.addEventListener("abort", leave, { once: true });
    const send = (bytes: Uint8Array<ArrayBuffer>) =>
      this.#send(format.path, { request, bytes, signal: abort.signal });
    if (request.headers.get("x-tare")?.toLowerCase() === "off") return passOn(await send(call.bytes), abort);
    let turn: StartedTurn | undefined;
    let { bytes } = call;
    let warning: string | undefined;
    try {
      turn = await this.#begin(format, call);
      if (turn) bytes = await turn.turn.prompt(abort.signal);
      for (const told of turn?.turn.plan?.warnings ?? []) this.#onError(new Error(told));
    } catch (error) {
      if (abort.signal.aborted) throw error;
      turn = undefined;
      bytes = call.bytes;
      warning = this.#warn("the request was sent on as it came", error);
    }
    let response = await send(bytes);
    if (turn && turn.turn.edited && REFUSALS.includes(response.status)) {
      const again = await this.#revert(turn, { response, send: () => send(call.bytes) });
      response = again.response;
      if (again.warning !== undefined) {
        warning = again.warning;
        turn = undefined;
      }
    }
    if (turn && !response.ok) this.ledger.count(turn.group, "errors");
    const type = response.headers.get("content-type") ?? "";
    if (!turn || !response.ok) return passOn(response, abort, { ...turn?.headers(), ...warned(warning) });
    if (type.includes("text/event-stream")) {
      return new Response(streamOf(this.#stream(turn, { response, send, abort }), abort), {
        status: response.status,
        statusText: response.statusText,
        headers: withHeaders(answerHeaders(response), turn.headers()),
      });
    }
    if (type.includes("json")) return await this.#whole(turn, { response, send, abort });
    return passOn(response, abort, turn.headers());
  }

  /** The upstream's name for a response that a client asks for. */
  upstreamResponse(id: string): string {
    const known = this.#responses.get(id)?.upstreamId;
    return known === undefined ? id : encodeURIComponent(known);
  }

  /** Passes a request without a plan on, such as one for the list of models. */
  async forward(path: string, request: Request): Promise<Response> {
    return passOn(await this.#send(path, { request, signal: request.signal }), new AbortController());
  }

  #send(path: string, { request, bytes, signal }: {
    readonly request: Request;
    readonly bytes?: Uint8Array<ArrayBuffer>;
    readonly signal: AbortSignal;
  }): Promise<Response> {
    const { baseURL, apiKey, clientKeys = true, fetch = globalThis.fetch } = this.#options;
    return fetch(baseURL.replace(/\/+$/, "") + path + new URL(request.url).search, {
      method: request.method,
      headers: upstreamHeaders(request, { apiKey, clientKeys }),
      ...(bytes && { body: bytes }),
      signal,
      redirect: "manual",
    });
  }

  /** Finds the session of a request and plans for it; nothing for a request that can't be planned. */
  async #begin(format: WireFormat, { request, bytes }: Call): Promise<StartedTurn | undefined> {
    const body = readWireBody(bytes);
    const { recall: offers = true, now = Date.now } = this.#options;
    const count = readField(body, "n");
    // Several answers at once can't be gone on with, and one in the background isn't there to be read.
    if ((typeof count === "number" && count > 1) || readField(body, "background") === true) return undefined;
    const countTokens = await this.#options.countTokens();
    const wire = readWireRequest(body, format, this.#known);
    const previous = readField(body, "previous_response_id");
    const conversation = readField(body, "conversation");
    const stateful = typeof previous === "string" || (conversation !== undefined && conversation !== null);
    const key = readField(body, "prompt_cache_key");
    const scope = JSON.stringify([
      format.name,
      hashOf(request.headers.get("authorization") ?? ""),
      typeof key === "string" ? key : null,
      stateful ? conversation ?? null : null,
    ]);
    const followed = typeof previous === "string" ? this.#responses.get(previous) : undefined;
    const name = request.headers.get("x-tare-session") ??
      (conversation ? JSON.stringify(conversation) : undefined);
    const session = followed?.session ?? this.#sessionsWith(countTokens).find({
      scope,
      ...(name !== undefined && { name }),
      keys: wire.items.map(({ key }) => key),
      messages: wire.items.map(({ value }) => value),
    });
    const planned = !session.control && !session.reverted;
    const recall = offers && planned && wire.tools !== undefined && wire.tools.length > 0 &&
      wire.tools.every(({ definition }) => definition?.function.name !== RECALL_TOOL.function.name);
    if (recall !== session.recall) {
      session.recall = recall;
      session.planner = this.#planner(session, session.planner.state, countTokens);
    }
    await countInSlices(wire, countTokens);
    const turn = new GatewayTurn({
      session,
      request: wire,
      recall,
      ...(followed && { follows: followed }),
      stateful,
      countTokens,
      known: this.#known,
      now,
    });
    const group = session.control ? "control" : "planned";
    const tokens = countRequestTokens({
      messages: wire.items.map(({ value }) => value),
      tools: plannedTools(wire.tools, false),
    }, countTokens);
    return {
      turn,
      session,
      group,
      headers: () => ({
        "x-tare-session": session.id,
        "x-tare-epoch": String(session.epoch),
        "x-tare-tokens-received": String(tokens),
        ...(turn.plan && {
          "x-tare-tokens-sent": String(turn.plan.promptTokens),
          "x-tare-cached-predicted": String(turn.predictedCachedTokens),
        }),
        "x-tare-saved": String(Math.round(session.planner.state.resend - session.planner.state.paid)),
      }),
    };
  }

  #sessionsWith(countTokens: CountTokens): GatewaySessions {
    return this.#sessions ??= new GatewaySessions({
      planner: (session, state) => this.#planner(session, state, countTokens),
      control: this.#options.control ?? 0,
      begun: ({ control }) => this.ledger.count(control ? "control" : "planned", "sessions"),
    });
  }

  #planner(
    { archive, recall, control, reverted }: PlannedSession,
    state: PlannerState,
    countTokens: CountTokens,
  ): Planner {
    const { profile, windowTokens, mechanisms } = this.#options;
    const { context, prune, schemas } = mechanisms ?? { context: true, prune: true, schemas: true };
    const retention = control || reverted ? LEAVE_ALL : {
      ...KEEP_WANTED,
      ...(!prune && { protectTokens: Infinity }),
      ...(!context && { historyTokens: Infinity }),
      ...(!schemas && { compactTools: false }),
    };
    return new Planner({ profile, archive, countTokens, windowTokens, recall, retention }, state);
  }

  /** The upstream refused what was made of a request: if it takes the client's own, that's what it gets from now on. */
  async #revert(
    { session }: StartedTurn,
    { response, send }: { readonly response: Response; readonly send: () => Promise<Response> },
  ): Promise<{ readonly response: Response; readonly warning?: string }> {
    const refusal = await response.text();
    const second = await send();
    if (!second.ok) return { response: second };
    session.reverted = true;
    session.recall = false;
    session.edits = [];
    session.hidden = [];
    session.planner = this.#planner(session, session.planner.state, await this.#options.countTokens());
    const cause = new Error(`the upstream answered ${response.status}: ${refusal.slice(0, 500)}`);
    return { response: second, warning: this.#warn("this session is sent on as it comes", cause) };
  }

  /** An answer that isn't streamed. */
  async #whole(started: StartedTurn, { response, send, abort }: Exchange): Promise<Response> {
    const { turn, session } = started;
    let last = response;
    let usage: WireReply["usage"];
    let answer: Uint8Array<ArrayBuffer> | undefined;
    for (let calls = 1; answer === undefined; calls++) {
      const bytes = await last.bytes();
      try {
        const reply = turn.writer.read(bytes);
        usage = reply.usage;
        this.#account(started, reply);
        const next = await this.#next(started, { reply, calls, abort });
        if (next) {
          last = await send(next);
          if (last.ok) continue;
          this.ledger.count(started.group, "errors");
          return passOn(last, abort, started.headers());
        }
        answer = turn.writer.finish();
        this.#end(started, reply);
      } catch (error) {
        if (abort.signal.aborted) throw error;
        this.#warn("the answer was passed on as it came", error);
        answer = bytes;
      }
    }
    const headers = withHeaders(answerHeaders(last), started.headers());
    if (usage) headers.set("x-tare-cached-reported", String(usage.cachedTokens));
    headers.set("x-tare-session", session.id);
    return new Response(answer, { status: last.status, statusText: last.statusText, headers });
  }

  async *#stream(
    started: StartedTurn,
    { response, send, abort }: Exchange,
  ): AsyncGenerator<Uint8Array<ArrayBuffer>, void> {
    const { turn } = started;
    let last = response;
    for (let calls = 1;; calls++) {
      let raw = false;
      for await (const bytes of last.body ?? []) {
        if (raw) yield bytes;
        else {
          let seen: Uint8Array<ArrayBuffer>[] = [];
          try {
            seen = turn.writer.push(bytes);
          } catch (error) {
            this.#warn("the rest of the stream is passed on as it comes", error);
            raw = true;
            seen = [bytes];
          }
          if (seen.length > 0) yield joinBytes(seen);
        }
      }
      if (raw) return;
      const reply = turn.writer.end();
      this.#account(started, reply);
      let next: Uint8Array<ArrayBuffer> | undefined;
      try {
        next = await this.#next(started, { reply, calls, abort });
      } catch (error) {
        this.#warn("a recall was not answered", error);
      }
      if (!next) {
        yield turn.writer.finish();
        this.#end(started, reply);
        return;
      }
      last = await send(next);
      if (last.ok) continue;
      this.ledger.count(started.group, "errors");
      yield turn.writer.fail(`The upstream answered ${last.status}: ${(await last.text()).slice(0, 1_000)}`);
      return;
    }
  }

  /** The next call of a turn, if its model only recalls; a reply that calls the client's tools too ends the turn. */
  async #next(
    { turn, group }: StartedTurn,
    { reply, calls, abort }: {
      readonly reply: WireReply;
      readonly calls: number;
      readonly abort: AbortController;
    },
  ): Promise<Uint8Array<ArrayBuffer> | undefined> {
    if (reply.recalls.length === 0) return undefined;
    await turn.recall(reply);
    this.ledger.count(group, "recalls", reply.recalls.length);
    if (reply.callsClient || calls >= MAX_RECALL_CALLS) return undefined;
    return await turn.prompt(abort.signal);
  }

  #account({ turn, group, session }: StartedTurn, reply: WireReply): void {
    try {
      const entry = turn.sent(reply);
      const usage = entry?.usage ?? reply.usage;
      if (usage) this.ledger.call(group, { usage, profile: session.planner.profile });
    } catch (error) {
      this.#warn("what a call cost is not known", error);
    }
  }

  #end({ turn, session }: StartedTurn, { id: upstreamId, callsClient, recalls }: WireReply): void {
    try {
      turn.remember();
      const { id } = turn.writer;
      if (id === undefined || upstreamId === undefined) return;
      const owed = callsClient && recalls.length > 0 ? turn.lastAnswers : [];
      this.#responses.delete(id);
      this.#responses.set(id, { session, upstreamId, owed });
      for (const oldest of this.#responses.keys()) {
        if (this.#responses.size <= MAX_OWED) break;
        this.#responses.delete(oldest);
      }
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

/** A request for the upstream, and its body. */
interface Call {
  readonly request: Request;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** A response that another may follow. */
interface FollowedResponse extends Followed {
  readonly session: GatewaySession;
}

/** A request that was planned. */
interface StartedTurn {
  readonly turn: GatewayTurn;
  readonly session: GatewaySession;
  readonly group: "planned" | "control";
  readonly headers: () => Readonly<Record<string, string>>;
}

/** What an answer is made from. */
interface Exchange {
  readonly response: Response;
  readonly send: (bytes: Uint8Array<ArrayBuffer>) => Promise<Response>;
  readonly abort: AbortController;
}

/** With these an upstream says that it doesn't take a request as it is. */
const REFUSALS: readonly number[] = [400, 422];

/** Clients are told apart by their keys, which are kept nowhere. */
function hashOf(secret: string): string {
  return createHash("sha256").update(secret).digest("base64");
}
