import { assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { StoreError } from "@tare/session";
import { openPostgresStore } from "@tare/session/postgres";
import { freePort } from "../../../crash/free_port.ts";
import { startPostgres } from "../postgres.ts";
import { TcpProxy } from "../tcp_proxy.ts";
import { FEW, through, withDatabase } from "./store.ts";
import { needs, PGBOUNCER } from "../../../needs.ts";

const postgres = await startPostgres();

async function withPooler(
  { database, ...settings }: { readonly database: string; readonly [setting: string]: string | number },
  test: (url: string) => Promise<void>,
): Promise<void> {
  const url = new URL(database);
  const folder = await Deno.makeTempDir({ prefix: "tare-pooler-" });
  try {
    const users = join(folder, "users");
    await Deno.writeTextFile(users, `"${url.username}" "${decodeURIComponent(url.password)}"\n`);
    const port = freePort();
    const given = {
      ...{ listen_addr: "127.0.0.1", listen_port: port, unix_socket_dir: "" },
      ...{ auth_type: "scram-sha-256", auth_file: users },
      ...settings,
    };
    const lines = Object.entries(given).map(([name, value]) => `${name} = ${value}`);
    const there = `* = host=${url.hostname} port=${url.port}`;
    const path = join(folder, "pgbouncer.ini");
    await Deno.writeTextFile(path, ["[databases]", there, "[pgbouncer]", ...lines, ""].join("\n"));
    await Deno.chmod(folder, 0o755);
    // pgbouncer doesn't run as root.
    const args = Deno.uid() === 0 ? ["-u", "nobody", path] : [path];
    const pooler = new Deno.Command("pgbouncer", { args, stdout: "null", stderr: "piped" }).spawn();
    const listens = Promise.withResolvers<void>();
    let log = "";
    const reading = (async () => {
      for await (const piece of pooler.stderr.pipeThrough(new TextDecoderStream())) {
        log += piece;
        if (log.includes("process up")) listens.resolve();
      }
      listens.reject(new Error(`Cannot start pgbouncer: ${log}`));
    })();
    try {
      await listens.promise;
      url.host = `127.0.0.1:${port}`;
      await test(url.href);
    } finally {
      pooler.kill("SIGINT");
      await pooler.status;
      await reading;
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function poolerTest(name: string, test: (database: string) => Promise<void>): void {
  Deno.test(needs(PGBOUNCER, `openPostgresStore() ${name}`), () => withDatabase(postgres, test));
}

async function refusalOf(url: string, options = {}): Promise<string> {
  return (await assertRejects(() => openPostgresStore(url, { ...FEW, ...options }), StoreError)).message;
}

const ADVICE =
  "A connection pooler assigns connections per transaction, such as pgbouncer with pool_mode = transaction, " +
  "but the store needs notifications and prepared statements. Use session pooling (pool_mode = session), or " +
  "connect to the database directly.";

const BY_TRANSACTION = {
  "as it is": {},
  "that has one connection": { default_pool_size: 1 },
  "that takes them in turn": { server_round_robin: 1 },
  "that resets each": { server_reset_query_always: 1 },
};

for (const [name, settings] of Object.entries(BY_TRANSACTION)) {
  poolerTest(
    `refuses a transaction pooler, ${name}, and suggests a fix`,
    (database) =>
      withPooler({ database, pool_mode: "transaction", ...settings }, async (url) => {
        const { host, pathname } = new URL(url);
        assertEquals(
          await refusalOf(url),
          `Cannot open the store postgres://${host}${pathname}: its connections aren't separate database sessions. ${ADVICE}`,
        );
      }),
  );
}

poolerTest(
  "refuses several transaction poolers, each with one of its connections",
  (database) =>
    withPooler(
      { database, pool_mode: "transaction" },
      (first) =>
        withPooler({ database, pool_mode: "transaction" }, async (second) => {
          const poolers = [first, second].map((url) => new URL(url));
          let requestCount = 0;
          await using proxy = new TcpProxy(() => {
            const { hostname, port } = poolers[requestCount++ % 2]!;
            return { hostname, port: Number(port) };
          });
          // One connection sends and the other receives, each through another pooler.
          const impatient = { timeoutMs: 1000, statementMs: 60_000, connectMs: 60_000 };
          const message = await refusalOf(through(database, proxy), impatient);
          assertEquals(message.includes(`its notifications don't arrive. ${ADVICE}`), true, message);
        }),
    ),
);

poolerTest(
  "refuses a statement pooler",
  (database) =>
    withPooler({ database, pool_mode: "statement" }, async (url) => {
      const message = await refusalOf(url);
      assertEquals(message.includes(`it accepts no transactions. ${ADVICE}`), true, message);
    }),
);

poolerTest(
  "accepts a session pooler",
  (database) =>
    withPooler({ database, pool_mode: "session" }, async (url) => {
      const [one, two] = [await openPostgresStore(url, FEW), await openPostgresStore(url, FEW)];
      await one.commit([{ type: "session", kind: "agent", id: "a", createdAtMs: 1, settings: {} }]);
      const hold = await one.shared.hold("a");
      await one.commit([{ type: "events", sessionId: "a", after: 0, events: [{ type: "x" }] }]);
      assertEquals([hold?.isSure(), await two.lastEvent("a")], [true, 1]);
      await one.close();
      await two.close();
    }),
);
