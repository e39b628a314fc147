import { Buffer } from "node:buffer";
import { createHmac } from "node:crypto";
import { lookup as lookupAddresses } from "node:dns/promises";
import { BlockList, isIP } from "node:net";
import type { WebhookOptions } from "../agent_options.ts";

/** A receiver's status, or an error. */
export type Attempted =
  | { readonly status: number; readonly retryAfter: string | null }
  | { readonly error: string };

export type Reach = Pick<WebhookOptions, "hosts" | "lookup" | "connect">;

/** Prefix of Standard Webhooks secrets. */
export const SECRET_PREFIX = "whsec_";

/** Returns why a URL is refused, after "Cannot …:". */
export function refusedUrl(text: string, { hosts, connect }: Reach): string | undefined {
  const url = URL.parse(text);
  if (!url || url.protocol !== "https:" && url.protocol !== "http:") {
    return "the address must begin with https://";
  }
  if (url.username !== "" || url.password !== "") {
    return "it contains a user or a password; requests are signed with the secret instead";
  }
  if (isNamed(url, hosts)) return undefined;
  if (!hosts.includes("*") || !connect) {
    return `TARE_WEBHOOK_HOSTS doesn't list ${url.host}, only ${hosts.join(", ")}`;
  }
  if (url.protocol !== "https:") {
    return `${url.host} requires https://, because TARE_WEBHOOK_HOSTS doesn't list it by name`;
  }
  const address = literalOf(url);
  return isIP(address) !== 0 && !isPublic(address) ? notPublic(url.host) : undefined;
}

/** Returns the signature header. */
export function signatures(
  secrets: readonly string[],
  { id, timestamp, body }: { readonly id: string; readonly timestamp: string; readonly body: string },
): string {
  return secrets.map((secret) => {
    const key = Buffer.from(secret.slice(SECRET_PREFIX.length), "base64");
    return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`;
  }).join(" ");
}

/** Returns the status. The response's body isn't read, redirects aren't followed. */
export async function sendWebhook(
  text: string,
  { reach, ...sent }: {
    readonly body: string;
    readonly headers: Readonly<Record<string, string>>;
    readonly signal: AbortSignal;
    readonly reach: Reach;
  },
): Promise<Attempted> {
  const refused = refusedUrl(text, reach);
  if (refused !== undefined) return { error: `Not sent: ${refused}.` };
  const { body, signal } = sent;
  const url = new URL(text);
  const headers = { ...sent.headers, "content-type": "application/json", "user-agent": "tare-webhooks" };
  try {
    if (!isNamed(url, reach.hosts)) {
      const late = new Promise<never>((_, reject) =>
        signal.addEventListener("abort", () => reject(signal.reason), { once: true })
      );
      return await Promise.race([sendPublicly(url, { headers, body, signal, reach }), late]);
    }
    const response = await fetch(url, { method: "POST", redirect: "manual", headers, body, signal });
    await response.body?.cancel();
    return { status: response.status, retryAfter: response.headers.get("retry-after") };
  } catch (error) {
    const { message } = error as Error;
    return { error: signal.aborted ? (signal.reason as Error).message : message };
  }
}

const MAX_HEAD_BYTES = 16 * 1024;

/** Sends to a checked address, so that the name can't resolve to another one meanwhile. */
async function sendPublicly(
  url: URL,
  { headers, body, signal, reach: { lookup = lookUp, connect } }: {
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
    readonly signal: AbortSignal;
    readonly reach: Reach;
  },
): Promise<Attempted> {
  const host = literalOf(url);
  const addresses = isIP(host) === 0 ? await lookup(host) : [host];
  const [address] = addresses;
  // A private address among public ones is suspicious.
  if (address === undefined || !addresses.every(isPublic)) return { error: `Not sent: ${notPublic(host)}.` };
  signal.throwIfAborted();
  const connection = await connect!({ host, address, port: Number(url.port || 443) });
  let isOpen = true;
  const close = () => {
    if (isOpen) connection.close();
    isOpen = false;
  };
  signal.addEventListener("abort", close);
  try {
    signal.throwIfAborted();
    const bytes = Buffer.from(body);
    const lines = [
      `POST ${url.pathname}${url.search} HTTP/1.1`,
      `host: ${url.host}`,
      ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`),
      `content-length: ${bytes.length}`,
      "connection: close",
    ];
    const writer = connection.writable.getWriter();
    await writer.write(Buffer.concat([Buffer.from(`${lines.join("\r\n")}\r\n\r\n`), bytes]));
    writer.releaseLock();
    return readHead(await readUntil(connection.readable));
  } finally {
    signal.removeEventListener("abort", close);
    close();
  }
}

async function readUntil(readable: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<string> {
  const reader = readable.getReader();
  let head = "";
  try {
    while (head.length < MAX_HEAD_BYTES) {
      const { value, done } = await reader.read();
      if (done) break;
      head = (head + Buffer.from(value).toString("latin1")).replace(/^HTTP\/1\.1 1\d\d[^]*?\r\n\r\n/, "");
      if (head.includes("\r\n\r\n")) break;
    }
  } finally {
    reader.releaseLock();
  }
  return head.split("\r\n\r\n")[0]!;
}

function readHead(head: string): Attempted {
  const status = /^HTTP\/1\.[01] (\d{3})\b/.exec(head)?.[1];
  if (status === undefined) return { error: "The response isn't HTTP." };
  return { status: Number(status), retryAfter: /^retry-after:[ \t]*(.*?)[ \t]*$/im.exec(head)?.[1] ?? null };
}

function isNamed({ hostname, port, protocol }: URL, hosts: readonly string[]): boolean {
  const withPort = `${hostname}:${port || (protocol === "https:" ? 443 : 80)}`;
  return hosts.includes(hostname) || hosts.includes(withPort);
}

function literalOf({ hostname }: URL): string {
  return hostname.replace(/^\[|\]$/g, "");
}

const lookUp = async (host: string) =>
  (await lookupAddresses(host, { all: true })).map(({ address }) => address);

function notPublic(host: string): string {
  return `${host} isn't a public address. List hosts of your own network in TARE_WEBHOOK_HOSTS by name`;
}

/** Loopback, private, reserved and multicast addresses. */
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
// IPv6 is allocated from 2000::/3, which partly embeds IPv4.
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
