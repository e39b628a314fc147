import { type Option, wholeNumber } from "../settings/option.ts";

/** What clients that keep the server waiting may cost it. */
export interface ConnectionLimits {
  /** Most connections at once. One more takes the place of the one that keeps the server waiting longest. */
  readonly maxConnections: number;
  /**
   * Milliseconds after which a connection is closed that hasn't sent the head of a request, or hasn't taken anything of
   * an answer.
   */
  readonly idleMs: number;
  /** Milliseconds within which the body of a request must have come. */
  readonly requestMs: number;
}

/** The settings that say so. */
export const LIMIT_OPTIONS = {
  maxConnections: {
    variable: "TARE_MAX_CONNECTIONS",
    flag: "max-connections",
    help: "Most connections at once. Default: half of what ulimit -n allows, and at most 10000",
    ...wholeNumber(1, 1_000_000),
  },
  idleSeconds: {
    variable: "TARE_IDLE_TIMEOUT",
    flag: "idle-timeout",
    fallback: "60",
    help:
      "Seconds after which a connection is closed that sends no head of a request or takes nothing of an answer",
    ...wholeNumber(1, 86_400),
  },
  requestSeconds: {
    variable: "TARE_REQUEST_TIMEOUT",
    flag: "request-timeout",
    fallback: "300",
    help: "Seconds within which the body of a request must have come",
    ...wholeNumber(1, 86_400),
  },
} satisfies Record<string, Option<unknown>>;

/** Most connections where nothing says how many there may be: each takes some 20 KB. */
const MAX_CONNECTIONS = 10_000;

/**
 * The limits that the settings say. Half of the descriptors are for connections, so that each request has one left for
 * the provider or a file.
 */
export async function connectionLimits(
  { maxConnections, idleSeconds, requestSeconds }: {
    readonly maxConnections?: number;
    readonly idleSeconds: number;
    readonly requestSeconds: number;
  },
): Promise<ConnectionLimits> {
  return {
    maxConnections: maxConnections ?? Math.min(MAX_CONNECTIONS, Math.floor(await descriptorLimit() / 2)),
    idleMs: idleSeconds * 1000,
    requestMs: requestSeconds * 1000,
  };
}

/** How many files and connections this process may have open; infinite where a shell can't tell. */
async function descriptorLimit(): Promise<number> {
  try {
    const { stdout } = await new Deno.Command("sh", { args: ["-c", "ulimit -n"], stderr: "null" }).output();
    // A word in place of a number says that there is none.
    return Number(new TextDecoder().decode(stdout)) || Infinity;
  } catch {
    return Infinity;
  }
}
