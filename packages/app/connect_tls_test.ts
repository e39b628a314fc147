import { assertEquals, assertRejects } from "@std/assert";
import { connectTls } from "./connect_tls.ts";

Deno.test("connectTls() speaks TLS with the host at its address, and no other way", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const first = (async () => {
    using connection = await listener.accept();
    const bytes = new Uint8Array(1024);
    const length = await connection.read(bytes) ?? 0;
    await connection.write(new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n\r\n"));
    // The record of a handshake, which names the host.
    return { kind: bytes[0], text: new TextDecoder("latin1").decode(bytes.subarray(0, length)) };
  })();
  await assertRejects(async () => {
    using connection = await connectTls({ host: "hooks.example", address: "127.0.0.1", port });
    await connection.handshake();
  });
  const { kind, text } = await first;
  assertEquals([kind, text.includes("hooks.example")], [22, true]);
});

Deno.test("connectTls() rejects a host name that is none, and closes the connection", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const closed = (async () => {
    using connection = await listener.accept();
    return await connection.read(new Uint8Array(1));
  })();
  await assertRejects(() => connectTls({ host: "not a host", address: "127.0.0.1", port }));
  assertEquals(await closed, null);
});
