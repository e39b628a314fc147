/** Names under which every machine knows itself. */
export const LOOPBACK_HOSTS: readonly string[] = ["localhost", "127.0.0.1", "[::1]"];

/** Addresses that stand for all of a machine's. */
const WILDCARDS: readonly string[] = ["0.0.0.0", "[::]"];

/** Whether only this machine itself can reach a server that listens on this host. */
export function isLoopback(host: string): boolean {
  const name = hostName(host);
  return name === "localhost" || name === "[::1]" || /^127\.\d+\.\d+\.\d+$/.test(name);
}

/**
 * The host names that requests to a server on `host` may name: its own, those of loopback if it listens there, and
 * those configured besides. On all addresses at once (`0.0.0.0`, `::`) every IP address is its own, which
 * {@linkcode hostRule} is told by `*`.
 */
export function allowedHosts(host: string, extra: readonly string[] = []): readonly string[] {
  const name = hostName(host);
  const isWildcard = WILDCARDS.includes(name);
  return [
    name,
    ...(isWildcard || isLoopback(host) ? LOOPBACK_HOSTS : []),
    ...(isWildcard ? ["*"] : []),
    ...extra.map(hostName),
  ];
}

/**
 * Makes a function that tells whether a request was meant for this server. A web page can point a name of its own at
 * this machine (DNS rebinding), but then its requests carry that name. An IP address can't be pointed elsewhere, so
 * with `*` among the hosts each one is right.
 */
export function hostRule(hosts: readonly string[]): (request: Request) => boolean {
  const isAllowed = (name: string) =>
    hosts.includes(name) || (hosts.includes("*") && /^(\d+\.\d+\.\d+\.\d+|\[[\da-f:.]+\])$/.test(name));
  return ({ url, headers }) => {
    const named = headers.get("host");
    // They differ if the request line names a host of its own.
    return isAllowed(new URL(url).hostname) && (named === null || isAllowed(hostName(named)));
  };
}

/** A host as URLs write it: in lower case, IPv6 in brackets, without a port. */
function hostName(host: string): string {
  const address = host.includes(":") && !host.startsWith("[") && host.split(":").length > 2
    ? `[${host}]`
    : host;
  return URL.parse(`http://${address}`)?.hostname ?? host.toLowerCase();
}
