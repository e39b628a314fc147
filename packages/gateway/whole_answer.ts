import { joinBytes, MAX_EVENT_BYTES, type WireReply } from "@tare/wire";
import type { GatewayTurn } from "./turn.ts";
import { answerHeaders, passOn, streamOf, warned } from "./upstream.ts";

/** How a turn's replies ended. */
export interface LastReply {
  readonly response: Response;
  /** What the last call took; nothing if it failed, or didn't tell. */
  readonly usage?: WireReply["usage"];
  /** Resolves when its session is kept, or after a short while. Absent: nothing is kept, or nobody need wait. */
  readonly saved?: Promise<void> | undefined;
}

/** An answer that isn't streamed, unless it is too long to be held. */
export async function wholeAnswer(
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
