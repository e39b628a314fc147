import { Buffer } from "node:buffer";
import { createHmac } from "node:crypto";
import { lookup as lookupAddresses } from "node:dns/promises";
import { request as requestHttp, type RequestOptions } from "node:http";
import { request as requestHttps } from "node:https";
import { BlockList, isIP } from "node:net";

/** What came of an attempt: the receiver's status, or why there is none. */
export type Attempted =
  | { readonly status: number; readonly retryAfter?: string | undefined }
  | { readonly error: string };

/** An address of a host. */
export interface HostAddress {
  readonly address: string;
  readonly family: number;
}

/** Where webhooks may go. */
export interface Reach {
  /**
   * Hosts, as `host` or `host:port`: what leads there may be plain HTTP, and the address any. `*` stands for all others,
   * by HTTPS and at a public address.
   */
  readonly hosts: readonly string[];
  /** Looks a host up. Default: as the system does. */
  readonly lookup?: ((host: string) => Promise<readonly HostAddress[]>) | undefined;
}

/** Begins each secret, as the Standard Webhooks specification has it. */
export const SECRET_PREFIX = "whsec_";

/** Why nothing is sent to a URL, in words that follow "Cannot …:"; nothing if it may be. */
export function refusedUrl(text: string, { hosts }: Reach): string | undefined {
  const url = URL.parse(text);
  if (!url || url.protocol !== "https:" && url.protocol !== "http:") {
    return "an address that begins with https:// is wanted";
  }
  if (url.username !== "" || url.password !== "") {
    return "it holds a user or a password, and what signs requests is the secret";
  }
  if (isNamed(url, hosts)) return undefined;
  if (!hosts.includes("*")) {
    return `TARE_WEBHOOK_HOSTS doesn't list ${url.host}, only ${hosts.join(", ")}`;
  }
  if (url.protocol !== "https:") {
    return `${url.host} is reached by https:// alone, because TARE_WEBHOOK_HOSTS doesn't list it by name`;
  }
  const address = literalOf(url);
  return isIP(address) !== 0 && !isPublic(address) ? notPublic(url.host) : undefined;
}

/** Signatures of a message by these secrets: the header's value. */
export function signatures(
  secrets: readonly string[],
  { id, timestamp, body }: { readonly id: string; readonly timestamp: string; readonly body: string },
): string {
  return secrets.map((secret) => {
    const key = Buffer.from(secret.slice(SECRET_PREFIX.length), "base64");
    return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
  }).join(" ");
}

/**
 * Sends a body to a URL, and gives the status. Nothing of the answer's body is read, and no redirect is followed. What
 * isn't listed by name is sent to the addresses that were looked at, so that a name can't lead elsewhere in between.
 */
export function sendWebhook(
  text: string,
  { body, headers, signal, reach }: {
    readonly body: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly signal: AbortSignal;
    readonly reach: Reach;
  },
): Promise<Attempted> {
  const refused = refusedUrl(text, reach);
  if (refused !== undefined) return Promise.resolve({ error: `Not sent: ${refused}.` });
  const url = new URL(text);
  const options: RequestOptions = {
    method: "POST",
    headers: {
      ...headers,
      "content-type": "application/json",
      "content-length": String(Buffer.byteLength(body)),
      "user-agent": "tare-webhooks",
    },
    // Each on a connection of its own: none is left open.
    agent: false,
    signal,
    ...(!isNamed(url, reach.hosts) && { lookup: publicLookup(reach) }),
  };
  return new Promise((resolve) => {
    if (signal.aborted) return resolve({ error: String(signal.reason?.message) });
    const fail = (error: unknown) =>
      resolve({
        error: signal.aborted
          ? String(signal.reason?.message ?? signal.reason)
          : error instanceof Error
          ? error.message
          : String(error),
      });
    try {
      const sent = (url.protocol === "https:" ? requestHttps : requestHttp)(url, options, (response) => {
        resolve({ status: response.statusCode ?? 0, retryAfter: response.headers["retry-after"] });
        response.on("error", () => {});
        response.destroy();
      });
      // Also what is cut off once the status is known.
      sent.on("error", fail);
      sent.end(body);
    } catch (error) {
      fail(error);
    }
  });
}

/** Whether a host is listed by name. */
function isNamed({ hostname, port, protocol }: URL, hosts: readonly string[]): boolean {
  const withPort = `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
  return hosts.includes(hostname) || hosts.includes(withPort);
}

/** The host of a URL, IPv6 without its brackets. */
function literalOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, "");
}

/** Looks a host up for a connection, and gives only what is public. */
function publicLookup({ lookup = lookUp }: Reach): NonNullable<RequestOptions["lookup"]> {
  return (host, options, answer) => {
    lookup(host).then((found) => {
      const given = found.filter(({ address }) => isPublic(address));
      const [first] = given;
      // Who hides one private address among others means no good.
      if (!first || given.length < found.length) answer(new Error(`Not sent: ${notPublic(host)}.`), "", 0);
      else if (options.all) answer(null, [...given]);
      else answer(null, first.address, first.family);
    }).catch((error) => answer(error, "", 0));
  };
}

const lookUp = (host: string) => lookupAddresses(host, { all: true });

function notPublic(host: string): string {
  return `${host} isn't a public address. TARE_WEBHOOK_HOSTS lists those of this machine's own network by name`;
}

/** Addresses of this machine, of networks that nobody else reaches, and of what isn't one machine. */
const NOT_PUBLIC = new BlockList();
for (
  const subnet of [
    ...["0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"],
    ...["192.0.0.0/24", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"],
    ...["203.0.113.0/24", "224.0.0.0/3"],
  ]
) {
  const [net = "", prefix] = subnet.split("/");
  NOT_PUBLIC.addSubnet(net, Number(prefix), "ipv4");
}
// Of IPv6 all that is given out is 2000::/3; of that some stand for addresses of IPv4.
const GIVEN_OUT = new BlockList();
GIVEN_OUT.addSubnet("2000::", 3, "ipv6");
for (const [net, prefix] of [["2001::", 23], ["2001:db8::", 32], ["2002::", 16]] as const) {
  NOT_PUBLIC.addSubnet(net, prefix, "ipv6");
}

function isPublic(address: string): boolean {
  switch (isIP(address)) {
    case 4:
      return !NOT_PUBLIC.check(address, "ipv4");
    case 6:
      return GIVEN_OUT.check(address, "ipv6") && !NOT_PUBLIC.check(address, "ipv6");
    default:
      return false;
  }
}
