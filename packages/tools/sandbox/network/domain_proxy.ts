/**
 * Proxy from the sandbox to the network: listens on a socket, in its own process without keys, and connects
 * to allowed hosts only. Arguments: the socket's path and the hosts. Ends with its standard input.
 *
 * Has no imports, because it runs without the project's configuration.
 *
 * @module
 */
// deno-lint-ignore-file no-console

interface Wanted {
  readonly host: string;
  readonly port: number;
  /** First bytes for the host; absent if the client speaks to it directly (CONNECT). */
  readonly head?: string;
  readonly isSecure?: boolean;
}

const PORTS = [80, 443];

const MAX_HEAD_BYTES = 65_536;

type Carried = Pick<Deno.Conn, "readable" | "writable" | "close" | "remoteAddr">;

/** Forwards a connection to the host that it requests first, or returns an error and closes it. */
export async function carry<Connection extends Carried>(
  client: Pick<Carried, "readable" | "writable" | "close">,
  { domains, connect, secure }: {
    readonly domains: readonly string[];
    readonly connect: (to: { readonly hostname: string; readonly port: number }) => Promise<Connection>;
    readonly secure: (connection: Connection, hostname: string) => Promise<Carried>;
  },
): Promise<void> {
  const reader = client.readable.getReader();
  const answer = async (text: string) => {
    const writer = client.writable.getWriter();
    await writer.write(new TextEncoder().encode(text));
    writer.releaseLock();
  };
  const refuse = async (status: string, why: string) => {
    await answer(`HTTP/1.1 ${status}\r\ncontent-type: text/plain\r\nconnection: close\r\n\r\n${why}\n`);
    client.close();
  };
  const { head, rest } = await readHead(reader);
  const wanted = wantedBy(head);
  if (!wanted) {
    return await refuse("400 Bad Request", "The sandbox's network accepts only proxy requests.");
  }
  const { host, port } = wanted;
  const open = `It reaches ${domains.join(", ")} on ports ${PORTS.join(" and ")}`;
  if (!PORTS.includes(port) || !domains.some((domain) => isNamedBy(domain, host))) {
    return await refuse(
      "403 Forbidden",
      `Cannot reach ${host}:${port} from the sandbox: it is not allowed. ${open}.`,
    );
  }
  let upstream: Carried;
  try {
    const connection = await connect({ hostname: host, port });
    // A name may resolve to any address, this machine's included.
    if (isOwn(connection.remoteAddr)) {
      connection.close();
      return await refuse(
        "403 Forbidden",
        `Cannot reach ${host}:${port} from the sandbox: its address is this network's own.`,
      );
    }
    upstream = wanted.isSecure ? await secure(connection, host) : connection;
  } catch (error) {
    return await refuse("502 Bad Gateway", `Cannot reach ${host}:${port}: ${(error as Error).message}`);
  }
  if (wanted.head === undefined) await answer("HTTP/1.1 200 Connection established\r\n\r\n");
  reader.releaseLock();
  const up = async () => {
    const first = upstream.writable.getWriter();
    if (wanted.head !== undefined) await first.write(new TextEncoder().encode(wanted.head));
    if (rest.length > 0) await first.write(rest);
    first.releaseLock();
    await client.readable.pipeTo(upstream.writable);
  };
  await Promise.allSettled([up(), upstream.readable.pipeTo(client.writable)]);
}

async function readHead(
  reader: ReadableStreamDefaultReader<Uint8Array>,
): Promise<{ readonly head: string; readonly rest: Uint8Array<ArrayBuffer> }> {
  let bytes = new Uint8Array();
  while (bytes.length < MAX_HEAD_BYTES) {
    const { value, done } = await reader.read();
    if (done) break;
    const longer = new Uint8Array(bytes.length + value.length);
    longer.set(bytes);
    longer.set(value, bytes.length);
    bytes = longer;
    const end = new TextDecoder("latin1").decode(bytes).indexOf("\r\n\r\n");
    if (end >= 0) {
      return { head: new TextDecoder("latin1").decode(bytes.subarray(0, end)), rest: bytes.slice(end + 4) };
    }
  }
  return { head: "", rest: bytes };
}

function wantedBy(head: string): Wanted | undefined {
  const [line = "", ...fields] = head.split("\r\n");
  const [method, target = "", version] = line.split(" ");
  if (version === undefined || !version.startsWith("HTTP/1.")) return undefined;
  if (method === "CONNECT") {
    const url = URL.parse(`http://${target}`);
    return url ? { host: url.hostname, port: Number(/:(\d+)$/.exec(target)?.[1] ?? 443) } : undefined;
  }
  const url = URL.parse(target);
  if (url?.protocol !== "http:" && url?.protocol !== "https:") return undefined;
  const isSecure = url.protocol === "https:";
  // One request per connection: the next one might be for another host.
  const forwardedFields = fields.filter((field) => !/^(proxy-[^:]*|connection|host)\s*:/i.test(field));
  const lines = [
    `${method} ${url.pathname}${url.search} ${version}`,
    `host: ${url.host}`,
    "connection: close",
    ...forwardedFields,
  ];
  const port = Number(url.port || (isSecure ? 443 : 80));
  return { host: url.hostname, port, isSecure, head: `${lines.join("\r\n")}\r\n\r\n` };
}

function isNamedBy(domain: string, host: string): boolean {
  const [name, given] = [domain.toLowerCase(), host.toLowerCase().replace(/\.$/, "")];
  return name.startsWith("*.") ? given.endsWith(name.slice(1)) : given === name;
}

/** Addresses of this machine and private networks: loopback, private, link-local, multicast and reserved. */
const OWN =
  /^(0\.|10\.|127\.|169\.254\.|192\.168\.|192\.0\.0\.|198\.1[89]\.|2(2[4-9]|[345]\d)\.|172\.(1[6-9]|2\d|3[01])\.|100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.|::|f[cdf]|fe[89a-f]|64:ff9b:|2002:)/i;

function isOwn(address: Deno.Addr): boolean {
  return !("hostname" in address) || OWN.test(address.hostname.replace(/^::ffff:/i, ""));
}

if (import.meta.main) {
  const [path = "", ...domains] = Deno.args;
  const listener = Deno.listen({ transport: "unix", path });
  console.log("listens");
  const serve = async () => {
    for await (const client of listener) {
      carry(client, {
        domains,
        connect: (to) => Deno.connect(to),
        async secure(connection, hostname) {
          const secured = await Deno.startTls(connection, { hostname });
          // Otherwise the first read throws the certificate's error.
          await secured.handshake();
          return secured;
        },
      }).catch(() => {});
    }
  };
  serve().catch(() => {});
  for await (const _ of Deno.stdin.readable) {
    // Until the end of input.
  }
  Deno.removeSync(path);
  Deno.exit();
}
