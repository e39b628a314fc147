import { USUAL_PORT } from "@tare/cli/parts";
import type { Settings } from "./settings/settings.ts";
import { type ConnectionLimits, type HttpListener, listenHttp } from "@tare/server/internal/listen";

/** Time that answers have to finish when a server ends, in milliseconds. */
export const ANSWER_GRACE_MS = 2000;

/** Options of the server's listener and of the rehearsal provider's. */
export interface Listening {
  readonly limits: ConnectionLimits;
  readonly onError: (error: unknown) => void;
}

/** Most connections if the descriptors allow more: each takes some 20 KB. */
const MAX_CONNECTIONS = 10_000;

/**
 * Returns the limits of connections. Half of the descriptors are for connections, so that each request has one left for
 * the provider or a file.
 */
export async function connectionLimits(
  { maxConnections }: { readonly maxConnections?: number | undefined } = {},
): Promise<ConnectionLimits> {
  return {
    maxConnections: maxConnections ?? Math.min(MAX_CONNECTIONS, Math.floor(await descriptorLimit() / 2)),
    idleMs: 60_000,
    requestMs: 300_000,
    maxInFlightBytes: 64 * 2 ** 20,
  };
}

/** Returns how many files and connections this process may have open; infinite where a shell can't report it. */
async function descriptorLimit(): Promise<number> {
  try {
    const { stdout } = await new Deno.Command("sh", { args: ["-c", "ulimit -n"], stderr: "null" }).output();
    // A word in place of a number says that there is none.
    return Number(new TextDecoder().decode(stdout)) || Infinity;
  } catch {
    return Infinity;
  }
}

/** A server that listens at an address. */
export interface BoundListener extends HttpListener {
  readonly addr: Deno.NetAddr;
}

/** Listens at an address; port 0 takes a free one. @throws the errors of `Deno.listen()`. */
export function listenAt(
  { hostname, port }: { readonly hostname: string; readonly port: number },
  { fetch, ...listening }: Listening & { readonly fetch: (request: Request) => Promise<Response> },
): BoundListener {
  const listener = Deno.listen({ hostname, port });
  return { ...listenHttp(fetch, { listener, ...listening }), addr: listener.addr as Deno.NetAddr };
}

/**
 * Listens where the settings say, or else on the last port, the usual one or a free one.
 *
 * @throws {RangeError} if host and port cannot be listened on.
 */
export async function listenAsSet(
  { host, port }: Settings,
  { fetch, lastPort = USUAL_PORT, ...listening }: Listening & {
    readonly fetch: (request: Request) => Promise<Response>;
    readonly lastPort?: number | undefined;
  },
): Promise<BoundListener> {
  const listenOn = (port: number) => listenAt({ hostname: host, port }, { fetch, ...listening });
  try {
    if (port !== undefined) return await listenOn(port);
    for (const one of new Set([lastPort, USUAL_PORT])) {
      try {
        return await listenOn(one);
      } catch (error) {
        // There the server of another folder may listen, or the port may be another user's by now.
        if (one !== USUAL_PORT || error instanceof Deno.errors.AddrInUse) continue;
        throw error;
      }
    }
    return await listenOn(0);
  } catch (cause) {
    const reason = cause instanceof Deno.errors.AddrInUse
      ? "another program listens there; TARE_PORT takes another port, or 0 for a free one"
      : `${(cause as Error).message}; TARE_HOST and TARE_PORT say where`;
    throw new RangeError(
      `Cannot start: TARE_HOST is ${JSON.stringify(host)} and TARE_PORT is ${port ?? USUAL_PORT}: ${reason}.`,
      {
        cause,
      },
    );
  }
}

/** Returns the URL of an address. */
export function serverUrl({ hostname, port }: Deno.NetAddr): string {
  return `http://${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}

/** Returns the URL by which programs of this machine reach an address. */
export function reachable({ hostname, port }: Deno.NetAddr): string {
  return serverUrl({ transport: "tcp", port, hostname: LOOPBACK_OF[hostname] ?? hostname });
}

/** What reaches a server that listens on every address. */
const LOOPBACK_OF: Readonly<Record<string, string>> = { "0.0.0.0": "127.0.0.1", "::": "::1" };
