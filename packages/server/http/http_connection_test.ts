import { assertEquals } from "@std/assert";
import { once } from "node:events";
import { HttpConnection } from "./listen_http.ts";

Deno.test("HttpConnection waits for a head, for a body, and for each piece of an answer to be read", async () => {
  const taken = [Promise.withResolvers<number>(), Promise.withResolvers<number>()];
  const requested = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  let written = 0;
  const conn = {
    setNoDelay: () => {},
    close: () => {},
    read: () => new Promise(() => {}),
    write() {
      requested[written]!.resolve();
      return taken[written++]!.promise;
    },
  } as unknown as Deno.TcpConn;
  const connection = new HttpConnection(conn, { idleMs: 60_000 });
  assertEquals(connection.wait?.limitMs, 60_000);
  connection.requestBegins({ limitMs: 5, late: () => {} });
  assertEquals(connection.wait?.limitMs, 5);
  connection.requestReceived();
  assertEquals(connection.wait, undefined);
  const done = new Promise<unknown>((resolve) => connection.write(new Uint8Array(10), resolve));
  await requested[0]!.promise;
  const first = connection.wait;
  taken[0]!.resolve(4);
  await requested[1]!.promise;
  assertEquals([first?.limitMs, connection.wait?.limitMs, first === connection.wait], [
    60_000,
    60_000,
    false,
  ]);
  taken[1]!.resolve(6);
  await done;
  assertEquals(connection.wait, undefined);
  connection.requestBegins();
  connection.requestEnds();
  assertEquals(connection.wait, undefined);
  connection.requestEnds();
  const closed = once(connection, "close");
  connection.wait?.late();
  await closed;
});
