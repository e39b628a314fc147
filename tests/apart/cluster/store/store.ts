import { openPostgresStore } from "@tare/session/postgres";
import type { Opening, SharedPlace } from "../../../../packages/session/store/openings_fixture_test.ts";
import { holding } from "../../../../packages/session/store/openings_fixture_test.ts";
import type { Place } from "../../../../packages/session/store/store_suite_fixture_test.ts";
import { type Postgres, query } from "../postgres.ts";
import { type Tampering, TcpProxy } from "../tcp_proxy.ts";

/** Lease that is long enough for a busy machine. */
const LEASE_MS = 60_000;

export const FEW = { maxConnections: 2, leaseMs: LEASE_MS, renewMs: 20 } as const;

/** Options with a long retry time. */
export const PATIENT = { ...FEW, timeoutMs: 60_000 } as const;

/** Options for lost attempts, each of which takes its full timeout. */
export const LOSING = { ...PATIENT, maxConnections: 1, statementMs: 2000, connectMs: 2000 } as const;

/** Options for tests that wait for the error. */
export const GIVING_UP = { ...FEW, maxConnections: 1, timeoutMs: 4000 } as const;

export async function withDatabase(postgres: Postgres, test: (url: string) => Promise<void>): Promise<void> {
  const url = await postgres.makeDatabase();
  try {
    await test(url);
  } finally {
    await postgres.dropDatabase(url);
  }
}

export function proxyTo(url: string, tampering: Tampering = {}): TcpProxy {
  const { hostname, port } = new URL(url);
  return new TcpProxy(() => ({ hostname, port: Number(port || 5432) }), tampering);
}

export function through(url: string, { port }: TcpProxy): string {
  const by = new URL(url);
  by.host = `127.0.0.1:${port}`;
  return by.href;
}

export function inPostgres(postgres: Postgres): Place {
  return (test) =>
    withDatabase(
      postgres,
      (url) => test(async (options) => holding(await openPostgresStore(url, { ...FEW, ...options }))),
    );
}

/** Returns a place in one database that is emptied between tests: for many short tests in sequence. */
export function inOneDatabase(postgres: Postgres): Place {
  let made: Promise<string> | undefined;
  return async (test) => {
    const url = await (made ??= postgres.makeDatabase());
    const tables = [
      ..."sessions heads names events state titles pending_work texts text_references documents".split(" "),
      ..."deliveries keys requests servers totals totals_pending".split(" "),
    ];
    try {
      await test(async (options) => holding(await openPostgresStore(url, { ...FEW, ...options })));
    } finally {
      // After a failure too: otherwise fast-check's smaller cases fail on its leftovers.
      await query(url, tables.map((table) => `DELETE FROM tare.${table}`).join("; "));
    }
  };
}

/** Returns a place for several openings, each with its own proxy to the database. */
export function sharedInPostgres(postgres: Postgres): SharedPlace {
  return (test) =>
    withDatabase(postgres, async (url) => {
      const opened = new Map<Opening, { readonly proxy: TcpProxy; readonly id: string; skip(): void }>();
      try {
        await test({
          async open() {
            const proxy = proxyTo(url);
            let skippedMs = 0;
            const clock = () => performance.now() + skippedMs;
            const before = opened.size === 0 ? [] : await servers(url);
            const opening = await openPostgresStore(through(url, proxy), { ...FEW, clock });
            const id = (await servers(url)).find((id) => !before.includes(id))!;
            opened.set(opening, { proxy, id, skip: () => skippedMs += LEASE_MS });
            return opening;
          },
          async stop(opening) {
            const { proxy, id, skip } = opened.get(opening)!;
            proxy.set({ type: "stuck" });
            skip();
            const end = "UPDATE tare.servers SET lease = '0', expires_at = '-infinity' WHERE id = $1";
            await query(url, end, [id]);
          },
          goOn: (opening) => opened.get(opening)!.proxy.set({ type: "open" }),
        });
      } finally {
        for (const [opening, { proxy }] of opened) {
          proxy.set({ type: "open" });
          await opening.close();
          await proxy[Symbol.asyncDispose]();
        }
      }
    });
}

async function servers(url: string): Promise<string[]> {
  return (await query<{ id: string }>(url, "SELECT id FROM tare.servers")).map(({ id }) => id);
}
