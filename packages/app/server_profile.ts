import { readBytes } from "@tare/gateway";
import { chooseProfile, LOCAL_PROFILE, profileOfModelList } from "@tare/planner";

/** Longest list of models that is read, in bytes. */
const MAX_LIST_BYTES = 2 ** 20;

/** Longest time that an answer may take, in milliseconds. */
const TIMEOUT_MS = 1_000;

/** A server that gave no list is asked again after so long, in milliseconds. */
const PAUSE_MS = 30_000;

/** Whom to ask, and how. */
interface AskedServer {
  readonly baseURL: string;
  readonly apiKey?: string | undefined;
  /** Default: the global `fetch`. */
  readonly fetch?: typeof fetch;
  /** Milliseconds since some fixed moment. Default: `performance.now`. */
  readonly now?: () => number;
}

/** What a server says of itself. */
interface ServerProfile {
  /** Name of the profile that it points to, as far as is known by now; asks the server, without waiting, if it isn't. */
  readonly name: () => string | undefined;
  /** Settles when the server has been asked for the first time; never rejects. */
  readonly asked: () => Promise<void>;
  /** Asks no more, and settles when nothing is asked any longer. */
  readonly close: () => Promise<void>;
}

/**
 * Finds out whether a provider is a server on one's own machine, such as llama.cpp or vLLM, from its list of models:
 * their ports and the names of their models say nothing. A provider that its address tells isn't asked; one that
 * doesn't answer changes nothing.
 */
export function serverProfile(
  { baseURL, apiKey, fetch = globalThis.fetch, now = () => performance.now() }: AskedServer,
): ServerProfile {
  const byAddress = chooseProfile({ baseUrl: baseURL }).name;
  let isKnown = byAddress !== "none" && byAddress !== LOCAL_PROFILE;
  let name: string | undefined;
  let asking: Promise<void> | undefined;
  let askedAt = -Infinity;
  const controller = new AbortController();
  const ask = async () => {
    askedAt = now();
    try {
      const response = await fetch(`${baseURL.replace(/\/+$/, "")}/models`, {
        headers: { ...(apiKey !== undefined && { authorization: `Bearer ${apiKey}` }) },
        redirect: "manual",
        signal: AbortSignal.any([controller.signal, AbortSignal.timeout(TIMEOUT_MS)]),
      });
      const list = JSON.parse(new TextDecoder().decode(await readBytes(response, MAX_LIST_BYTES)));
      name = profileOfModelList(list);
      // A list without models may have some later.
      isKnown = response.ok && Array.isArray(list?.data) && list.data.length > 0;
    } catch {
      // Whatever answers there says nothing of itself.
    } finally {
      asking = undefined;
    }
  };
  return {
    name() {
      if (!isKnown && !asking && now() - askedAt >= PAUSE_MS) asking = ask();
      return name;
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
