import { chooseProfile } from "@tare/planner";
import { readModelList } from "@tare/planner/internal";
import { readBytes } from "./read_request.ts";

/** Longest list of models that is read, in bytes: who passes on others' models has hundreds. */
const MAX_LIST_BYTES = 2 ** 23;

/** An answer may take so many looks of so many milliseconds: time for which this process stood still is one of them. */
const MOST_LOOKS = 10;
const LOOK_MS = 100;

/** A server that gave no list is asked again after so long, in milliseconds. */
const PAUSE_MS = 30_000;

/** Whom to ask, and how. */
export interface AskedServer {
  readonly baseURL: string;
  readonly apiKey?: string | undefined;
  /** Default: the global `fetch`. */
  readonly fetch?: typeof fetch;
  /** Milliseconds since some fixed moment. Default: `performance.now`. */
  readonly now?: () => number;
}

/** What a server says of itself. */
export interface ServerProfile {
  /** Name of the profile that it points to, as far as is known by now; asks the server, without waiting, if it isn't. */
  readonly name: () => string | undefined;
  /** The context window of a model in tokens, as far as that is known by now. */
  readonly windowTokens: (model: string) => number | undefined;
  /** Settles when the server has been asked for the first time; never rejects. */
  readonly asked: () => Promise<void>;
  /** Asks no more, and settles when nothing is asked any longer. */
  readonly close: () => Promise<void>;
}

/**
 * Finds out from a provider's list of models how much each reads, and whether it is a server on one's own machine, such
 * as llama.cpp or vLLM: their ports and the names of their models say nothing. A provider that its address tells isn't asked; one that
 * doesn't answer changes nothing.
 */
export function serverProfile(
  { baseURL, apiKey, fetch = globalThis.fetch, now = () => performance.now() }: AskedServer,
): ServerProfile {
  const byAddress = chooseProfile({ baseUrl: baseURL }).name;
  let isKnown = byAddress !== "none" && byAddress !== "local";
  let name: string | undefined;
  let windows: ReadonlyMap<string, number> = new Map();
  let asking: Promise<void> | undefined;
  let askedAt = -Infinity;
  const controller = new AbortController();
  const ask = async () => {
    askedAt = now();
    const late = new AbortController();
    let looked = 0;
    const looks = setInterval(() => ++looked === MOST_LOOKS && late.abort(), LOOK_MS);
    try {
      const response = await fetch(`${baseURL.replace(/\/+$/, "")}/models`, {
        headers: { ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }) },
        redirect: "manual",
        signal: AbortSignal.any([controller.signal, late.signal]),
      });
      const list = JSON.parse(new TextDecoder().decode(await readBytes(response, MAX_LIST_BYTES)));
      ({ profile: name, windows } = readModelList(list));
      // A list without models may have some later.
      isKnown = response.ok && Array.isArray(list?.data) && list.data.length > 0;
    } catch {
      // Whatever answers there says nothing of itself.
    } finally {
      clearInterval(looks);
      asking = undefined;
    }
  };
  const look = () => {
    if (!isKnown && !asking && now() - askedAt >= PAUSE_MS) asking = ask();
  };
  return {
    name() {
      look();
      return name;
    },
    windowTokens(model) {
      look();
      // One's own server answers with the one that it has, however it is called.
      const [only] = name === "local" && windows.size === 1 ? windows.values() : [];
      return windows.get(model) ?? only;
    },
    async asked() {
      if (!isKnown && askedAt === -Infinity) asking = ask();
      await asking;
    },
    async close() {
      isKnown = true;
      controller.abort();
      await asking;
    },
  };
}
