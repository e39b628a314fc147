import { RefusedError } from "./agent_client.ts";

/** How often a server that has broken off is looked for. */
const MAX_TRIES = 60;

const AWAY = "The server can't be reached. The turn goes on once it is there again; waiting for it.";

/** How who watches a turn bears that its server goes: another one, or the same started again, goes on with the turn. */
export interface ServerAway {
  /** The server has told something: it is there. */
  heard(): void;
  /** Settles when it may be looked for again, after it has failed so. @throws what it failed with, if waiting doesn't mend that or has been too long. */
  wait(error: unknown): Promise<void>;
}

/** Nothing has failed yet. `tell` is told once that the server is away, as soon as it is. */
export function serverAway(
  { tell, tryAgainMs = 1_000 }: {
    readonly tell: (message: string) => unknown;
    /** Time between two looks, in milliseconds. Default: a second, so that it is waited for a minute. */
    readonly tryAgainMs?: number | undefined;
  },
): ServerAway {
  let tries = 0;
  return {
    heard: () => void (tries = 0),
    async wait(error) {
      const isAway = error instanceof RefusedError && (error.status === 0 || error.status === 503);
      if (!isAway || tries === MAX_TRIES) throw error;
      if (tries++ === 0) await tell(AWAY);
      await new Promise((resolve) => setTimeout(resolve, tryAgainMs));
    },
  };
}
