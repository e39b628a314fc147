import { loadTokenizer, type Tokenizer } from "@tare/tiktoken";
import { type Profile, profileNamed } from "@tare/planner";
import { promptCost } from "@tare/planner/internal/parts";
import { type SimulatedCall, type SimulatedModel, simulator } from "@tare/simulator";
import { responsesUpstream } from "./responses_upstream.ts";

export interface Upstream extends AsyncDisposable {
  readonly baseURL: string;
  /** Answered requests, as chat completions whatever their protocol. */
  readonly requests: readonly SimulatedCall[];
  /** Returns the time of the next request, in milliseconds. */
  readonly now: () => number;
  readonly tokenizer: Tokenizer;
  readonly profile: Profile;
}

export const OPENAI: Profile = profileNamed("openai");

/** Time between two requests, in milliseconds, as in `bench savings` for recordings without times. */
const GAP_MS = 20_000;

export async function startUpstream(
  model: SimulatedModel,
  { profile = OPENAI, timeOf = (request) => request * GAP_MS }: {
    readonly profile?: Profile;
    /** Returns a request's time, by its number. Default: {@linkcode GAP_MS} after the one before. */
    readonly timeOf?: (request: number) => number;
  } = {},
): Promise<Upstream> {
  const tokenizer = await loadTokenizer();
  const now = (): number => timeOf(provider.requests.length);
  const provider = simulator({ model, tokenizer, profile, now });
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    responsesUpstream(provider.fetch),
  );
  return {
    baseURL: `http://127.0.0.1:${server.addr.port}/v1`,
    requests: provider.requests,
    now,
    tokenizer,
    profile,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** Returns the cost of requests, in units of one uncached input token. */
export function costOf({ requests, profile }: Pick<Upstream, "requests" | "profile">): number {
  return requests.reduce((sum, request) => {
    const { promptTokens, cachedTokens } = request;
    // A prompt that is too short for the cache isn't written to it.
    const cacheWriteTokens = promptTokens < profile.minTokens ? 0 : promptTokens - cachedTokens;
    return sum + promptCost(profile, { cacheWriteTokens, ...request });
  }, 0);
}
