import { USUAL_PORT } from "@tare/cli/parts";
import { type AnswerRequest, type HttpListener, listenHttp } from "@tare/server/internal/listen";
import type { Settings } from "./settings/settings.ts";

/** Time for responses to finish at shutdown, in milliseconds. */
export const ANSWER_GRACE_MS = 2000;

/** Limits of connections; each takes some 20 KB. */
const LIMITS = { idleMs: 60_000, requestMs: 300_000, maxInFlightBytes: 64 * 2 ** 20 };

const MAX_CONNECTIONS = 10_000;

/**
 * Returns the default connection limit: half of the descriptors, so that each request has one for the provider or a
 * file.
 */
export async function usualMaxConnections(): Promise<number> {
  try {
    const { stdout } = await new Deno.Command("sh", { args: ["-c", "ulimit -n"], stderr: "null" }).output();
    // `unlimited` is not a number.
    const descriptors = Number(new TextDecoder().decode(stdout)) || Infinity;
    return Math.min(MAX_CONNECTIONS, Math.floor(descriptors / 2));
  } catch {
    // There is no shell, or no permission.
    return MAX_CONNECTIONS;
  }
}

/**
 * Listens on the configured port, or else on the last, the default or a free one.
 *
 * @throws {RangeError} if it can't.
 */
export async function listenAsSet(
  { host, port }: Settings,
  { fetch, onError, lastPort = USUAL_PORT, maxConnections }: {
    readonly fetch: AnswerRequest;
    readonly onError: (error: unknown) => void;
    readonly lastPort?: number | undefined;
    /** Default: {@linkcode usualMaxConnections}. */
    readonly maxConnections?: number | undefined;
  },
): Promise<HttpListener & { readonly addr: Deno.NetAddr }> {
  const ports = port === undefined ? [...new Set([lastPort, USUAL_PORT, 0])] : [port];
  const limits = { ...LIMITS, maxConnections: maxConnections ?? await usualMaxConnections() };
  const listener = firstListener(host, ports);
  return { ...listenHttp(fetch, { listener, limits, onError }), addr: listener.addr as Deno.NetAddr };
}

function firstListener(host: string, [port = 0, ...others]: readonly number[]): Deno.TcpListener {
  try {
    return Deno.listen({ hostname: host, port });
  } catch (cause) {
    const isTaken = cause instanceof Deno.errors.AddrInUse;
    // The last port may be privileged or used by another server now.
    if (others.length > 0 && (isTaken || port !== USUAL_PORT)) return firstListener(host, others);
    const reason = isTaken
      ? "another program listens there. Set TARE_PORT to another port, or to 0 for a free one"
      : `${(cause as Error).message}. Check TARE_HOST and TARE_PORT`;
    throw new RangeError(
      `Cannot start: TARE_HOST is ${JSON.stringify(host)} and TARE_PORT is ${port}: ${reason}.`,
      { cause },
    );
  }
}

export function serverUrl({ hostname, port }: Deno.NetAddr): string {
  return `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}

/** Returns the URL of an address for programs on this machine. */
export function reachable({ hostname, port }: Deno.NetAddr): string {
  return serverUrl({ transport: "tcp", port, hostname: LOOPBACK_OF[hostname] ?? hostname });
}

/** Loopback addresses of wildcard addresses. */
const LOOPBACK_OF: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };
