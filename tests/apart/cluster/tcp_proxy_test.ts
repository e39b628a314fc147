import { assertEquals } from "@std/assert";
import { TcpProxy } from "./tcp_proxy.ts";

function echo(): Deno.TcpListener {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  (async () => {
    for await (const connection of listener) {
      connection.readable.pipeTo(connection.writable).catch(() => {});
    }
  })();
  return listener;
}

async function say(connection: Deno.Conn, word: string): Promise<void> {
  await connection.write(new TextEncoder().encode(word));
}

async function hear(connection: Deno.Conn): Promise<string | null> {
  const room = new Uint8Array(100);
  const bytes = await connection.read(room);
  return bytes === null ? null : new TextDecoder().decode(room.subarray(0, bytes));
}

Deno.test("TcpProxy: data is forwarded, held back, delayed or cut", async () => {
  using server = echo();
  await using proxy = new TcpProxy(() => ({ hostname: "127.0.0.1", port: server.addr.port }));
  const connect = () => Deno.connect({ hostname: "127.0.0.1", port: proxy.port });
  using connection = await connect();
  await say(connection, "open");
  assertEquals(await hear(connection), "open");

  proxy.set({ type: "stuck" });
  await say(connection, "late");
  let heard: string | null | undefined;
  const hearing = hear(connection).then((word) => heard = word);
  // Data that isn't held back has arrived by now.
  using other = await connect();
  await say(other, "too");
  assertEquals(heard, undefined);
  proxy.set({ type: "slow", delayMs: 20 });
  assertEquals([await hearing, await hear(other)], ["late", "too"]);

  proxy.set({ type: "cut" });
  await assertCut(connection);
  using third = await connect();
  await assertCut(third);

  proxy.set({ type: "open" });
  using last = await connect();
  await say(last, "again");
  assertEquals(await hear(last), "again");
});

async function assertCut(connection: Deno.Conn): Promise<void> {
  const word = await hear(connection).catch((error) => {
    assertEquals(error instanceof Deno.errors.ConnectionReset, true);
    return null;
  });
  assertEquals(word, null);
}
