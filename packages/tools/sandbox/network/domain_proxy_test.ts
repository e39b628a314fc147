import { assertEquals } from "@std/assert";
import { carry } from "./domain_proxy.ts";

async function sent(text: string, address = "203.0.113.7") {
  const reached: string[] = [];
  const input = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>();
  const output = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>();
  const host = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>();
  const write = async () => {
    const writer = input.writable.getWriter();
    await writer.write(new TextEncoder().encode(text));
    await writer.close();
  };
  const close = () => void output.writable.close().catch(() => {});
  const carried = carry({ readable: input.readable, writable: output.writable, close }, {
    domains: ["a.example", "*.b.example"],
    secure(connection, hostname) {
      reached.push(`TLS with ${hostname}`);
      return Promise.resolve(connection);
    },
    connect({ hostname, port }) {
      reached.push(`${hostname}:${port}`);
      return Promise.resolve({
        ...{ readable: host.readable, writable: host.writable, close() {} },
        remoteAddr: { transport: "tcp" as const, hostname: address, port },
      });
    },
  });
  const [received] = await Promise.all([new Response(output.readable).text(), carried, write()]);
  return { reached, received: received.split("\r\n") };
}

const ESTABLISHED = "HTTP/1.1 200 Connection established";

Deno.test("carry() tunnels to allowed hosts, ignoring case", async () => {
  assertEquals(await sent("CONNECT a.example:443 HTTP/1.1\r\n\r\nhello"), {
    reached: ["a.example:443"],
    received: [ESTABLISHED, "", "hello"],
  });
  const { reached } = await sent("CONNECT X.Y.B.EXAMPLE:443 HTTP/1.1\r\nHost: other.example\r\n\r\n");
  assertEquals(reached, ["x.y.b.example:443"]);
});

Deno.test("carry() forwards one plain request to the host of its address", async () => {
  const head =
    "GET http://a.example/p?q=1 HTTP/1.1\r\nHost: other.example\r\nProxy-Authorization: x\r\nAccept: */*\r\n\r\n";
  assertEquals(await sent(head), {
    reached: ["a.example:80"],
    received: ["GET /p?q=1 HTTP/1.1", "host: a.example", "connection: close", "Accept: */*", "", ""],
  });
});

Deno.test("carry() uses TLS for a client that requests an https address", async () => {
  assertEquals(await sent("GET https://a.example/p HTTP/1.1\r\nHost: other.example\r\n\r\n"), {
    reached: ["a.example:443", "TLS with a.example"],
    received: ["GET /p HTTP/1.1", "host: a.example", "connection: close", "", ""],
  });
  const refused = ["https://other.example/", "https://a.example:8443/", "https://a.example@other.example/"];
  for (const address of refused) {
    const { reached, received } = await sent(`GET ${address} HTTP/1.1\r\n\r\n`);
    assertEquals([reached, received[0]], [[], "HTTP/1.1 403 Forbidden"], address);
  }
});

Deno.test("carry() rejects everything else, and lists the allowed hosts", async () => {
  const why = "it is not allowed. It reaches a.example, *.b.example on ports 80 and 443.\n";
  const refused = async (target: string) => {
    const { reached, received } = await sent(`CONNECT ${target} HTTP/1.1\r\n\r\n`);
    return [reached, received[0], received.at(-1)];
  };
  for (
    const [target, as = target] of [
      ["other.example:443"],
      ["b.example:443"],
      ["xa.example:443"],
      ["a.example.evil.example:443"],
      ["a.example:22"],
      ["127.0.0.1:443"],
      ["[::1]:443"],
      ["a.example@evil.example:443", "evil.example:443"],
    ]
  ) {
    const forbidden = `Cannot reach ${as} from the sandbox: ${why}`;
    assertEquals(await refused(target!), [[], "HTTP/1.1 403 Forbidden", forbidden], target);
  }
  assertEquals((await sent("SSH-2.0-x\r\n\r\n")).received[0], "HTTP/1.1 400 Bad Request");
  assertEquals((await sent("no end")).received[0], "HTTP/1.1 400 Bad Request");
});

Deno.test("carry() blocks this machine and private networks, whatever name resolves to them", async () => {
  for (
    const address of [
      "127.0.0.1",
      "10.0.0.1",
      "192.168.1.1",
      "169.254.169.254",
      "::1",
      "::ffff:127.0.0.1",
      "fd00::1",
      "64:ff9b::7f00:1",
      "2002:7f00:1::",
      "::7f00:1",
      "198.18.0.1",
      "192.0.0.8",
      "224.0.0.1",
      "255.255.255.255",
    ]
  ) {
    const { received } = await sent("CONNECT a.example:443 HTTP/1.1\r\n\r\nhello", address);
    assertEquals(
      received.at(-1),
      "Cannot reach a.example:443 from the sandbox: its address is this network's own.\n",
    );
  }
});

Deno.test("carry() closes only a connection that fails at its start", async () => {
  const broken = () => {
    const error = new Error("broken");
    return {
      readable: new ReadableStream<Uint8Array<ArrayBuffer>>({
        start: (controller) => controller.error(error),
      }),
      writable: new WritableStream<Uint8Array<ArrayBuffer>>({ write: () => Promise.reject(error) }),
      remoteAddr: { transport: "tcp" as const, hostname: "203.0.113.7", port: 80 },
      close() {},
    };
  };
  const request = new TextEncoder().encode("GET http://a.example/ HTTP/1.1\r\n\r\n");
  const { readable, writable } = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>();
  const received = new Response(readable).text().catch((error: Error) => error.message);
  await carry({ readable: ReadableStream.from([request]), writable, close() {} }, {
    domains: ["a.example"],
    connect: () => Promise.resolve(broken()),
    secure: (connection) => Promise.resolve(connection),
  });
  assertEquals(await received, "broken");
});
