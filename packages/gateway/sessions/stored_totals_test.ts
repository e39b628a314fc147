import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { Store } from "@tare/session";
import { memoryStore, openStore } from "@tare/session/sqlite";
import { gateway, type GatewayOptions, type HttpGateway } from "@tare/gateway";
import type { GatewaySessionSummary } from "@tare/gateway/internal";
import { sharedMemory } from "../../../tests/shared_memory.ts";
import { conversation, MANNERS, play, type Played } from "./conversations_fixture_test.ts";
import { CHAT, DIALECTS } from "./dialects_fixture_test.ts";

const requests = conversation(CHAT, MANNERS[0]!);

const LATER_MS = 1_000_000 + 24 * 60 * 60_000;

type Json = Record<string, unknown>;

async function reportsOf({ sessions: registry }: HttpGateway) {
  const { warnings: _, ...overview } = await registry.overview();
  const sessions: GatewaySessionSummary[] = [];
  for (let hasMore = true; hasMore;) {
    const page = (await registry.list({ limit: 2, after: sessions.at(-1)?.id }))!;
    sessions.push(...page.sessions);
    hasMore = page.hasMore;
  }
  const each = await Promise.all(sessions.map(async ({ id }) => {
    const opened = (await registry.open(id))!;
    const { archiveBytes: _, ...details } = await opened.details();
    return { details, calls: await opened.calls() };
  }));
  return { ledger: await registry.ledger(), overview, sessions, each };
}

type Reports = Awaited<ReturnType<typeof reportsOf>>;

async function restarted(
  stores: { readonly first: Store; readonly second: () => Promise<Store> },
  more: Partial<GatewayOptions> = {},
): Promise<{ readonly before: Reports; readonly after: Reports; readonly played: Played }> {
  let opened: HttpGateway | undefined;
  let later: GatewayOptions | undefined;
  const played = await play(requests, CHAT, (_, options) => {
    later = options;
    return opened ??= gateway({ ...later, store: stores.first });
  }, { holdout: 0, ...more });
  const before = await reportsOf(opened!);
  await opened!.close();
  const again = gateway({ ...later!, store: await stores.second() });
  const after = await reportsOf(again);
  await again.close();
  return { before, after, played };
}

/** Rounds numbers whose summands may be in another order. */
const rounded = (of: unknown): unknown =>
  JSON.parse(
    JSON.stringify(of, (_, value) => typeof value === "number" ? Number(value.toPrecision(10)) : value),
  );

const callsIn = ({ each }: Reports) => each.map(({ calls }) => calls.length);
const titlesIn = ({ sessions }: Reports) => sessions.map(({ title }) => title);

Deno.test("restart: a gateway knows its sessions, calls, totals, ledger and overview", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/tare.db`;
  const first = await openStore(path);
  const second = async () => {
    await first.close();
    return reopened = await openStore(path);
  };
  let reopened = first;
  try {
    const { before, after } = await restarted({ first, second });
    assertEquals(after, before);
    const { planned } = before.ledger;
    assertEquals([planned.sessions, planned.compactions], [1, 1]);
    assert(before.sessions.length > 2 && planned.recalls > 5);
    assertEquals(callsIn(before).reduce((sum, count) => sum + count, 0), planned.calls);
    const numbers = before.each.map(({ calls }) => calls.map(({ number }) => number));
    for (const of of numbers) assertEquals(of, of.map((_, at) => at + 1));
    assert(
      before.each.some(({ details }) => details.rewrites.length > 0),
    );
  } finally {
    await reopened.close();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("shared store: a gateway knows the calls of others, also during their sessions", async () => {
  const memory = sharedMemory();
  const stores = [memory.open().store, memory.open().store];
  const open = new Map<number, HttpGateway>();
  let options: GatewayOptions | undefined;
  await play(requests, CHAT, (at, given) => {
    options = given;
    const which = at % 2;
    const opened = open.get(which) ?? gateway({ ...options, store: stores[which]! });
    open.set(which, opened);
    return opened;
  });
  let single: HttpGateway | undefined;
  const alone = await play(requests, CHAT, (_, given) => single ??= gateway(given));
  assertEquals(alone.reported, []);
  const [one, two] = await Promise.all([0, 1].map((which) => reportsOf(open.get(which)!)));
  assertEquals(two, one);
  const whole = await reportsOf(single!);
  assertEquals(
    rounded([one!.ledger, one!.overview, callsIn(one!), titlesIn(one!)]),
    rounded([
      whole.ledger,
      whole.overview,
      callsIn(whole),
      titlesIn(whole),
    ]),
  );
});

Deno.test("store: without content only the totals of sessions and calls are stored", async () => {
  const folder = await Deno.makeTempDir();
  const path = `${folder}/tare.db`;
  let reopened = await openStore(path);
  try {
    const second = async () => {
      await reopened.close();
      return reopened = await openStore(path);
    };
    const { before, after, played } = await restarted({ first: reopened, second }, {
      retention: { content: false, waitMs: 60_000 },
    });
    assertStringIncludes(played.sent.join(), "[elided: ");
    const withoutTitle = ({ title: _, ...session }: GatewaySessionSummary) => session;
    assertEquals(after.sessions.map(withoutTitle), before.sessions.map(withoutTitle));
    assertEquals([after.ledger, after.overview, callsIn(after)], [
      before.ledger,
      before.overview,
      callsIn(before),
    ]);
    assertEquals(new Set(titlesIn(after)), new Set([""]));
    const rows = await reopened.listSessions({ kind: "gateway" });
    for (const { id, settings } of rows) {
      const names = Object.keys(settings as Json).filter((name) => name !== "forkOf");
      assertEquals(names.sort(), ["holdout", "protocol"]);
      for (const name of ["value", "title"]) assertEquals(await reopened.readState(id, name), undefined);
    }
    await reopened.close();
    const text = new TextDecoder("latin1").decode(Deno.readFileSync(path));
    for (const content of ["constants", "a0.ts", "elided", "summary of"]) {
      assertEquals(text.includes(content), false, content);
    }
    reopened = await openStore(path);
    const texts = await reopened.expireSessions({ kind: "gateway", beforeMs: LATER_MS * 2, maxBytes: 0 });
    assertEquals(texts, rows.length);
  } finally {
    await reopened.close();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("shared store: concurrent calls of two servers in one conversation are all added", async () => {
  const memory = sharedMemory();
  const stores = [memory.open().store, memory.open().store];
  let opened: HttpGateway[] = [];
  let at = 0;
  // Both save concurrently, from states that are outdated then.
  const held: PromiseWithResolvers<void>[] = [];
  const late = (store: Store): Store => ({
    ...store,
    shared: {
      ...store.shared!,
      holdAndCommit: async (hold) => {
        await held[at]?.promise;
        return await store.shared!.holdAndCommit(hold);
      },
    },
  });
  const same = requests.slice(0, 1);
  await play(same, CHAT, (_, options) => {
    opened = stores.map((store) => gateway({ ...options, store: late(store) }));
    return opened[0]!;
  });
  held[0] = Promise.withResolvers();
  const { path, body } = requests[1]!;
  const fetchAll = opened.map(async ({ fetch }) => {
    const request = new Request(`http://localhost/v1${path}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    });
    return await (await fetch(request))!.text();
  });
  await new Promise((resolve) => setTimeout(resolve, 0));
  held[0].resolve();
  at = 1;
  await Promise.all(fetchAll);
  const [one, two] = await Promise.all(opened.map(reportsOf));
  assertEquals(two, one);
  assertEquals([callsIn(one!), (one!.ledger as { planned: { calls: number } }).planned.calls], [[3], 3]);
});

Deno.test("shared store: a session held by another server is written once it is released", async () => {
  const memory = sharedMemory();
  const [mine, other] = [memory.open().store, memory.open().store];
  const errors: string[] = [];
  let opened: HttpGateway | undefined;
  let id = "";
  const open = (at: number, options: GatewayOptions) => {
    opened ??= gateway({ ...options, store: mine });
    return at < 2 ? opened : blocked(opened);
  };
  const blocked = async (opened: HttpGateway) => {
    id = (await opened.sessions.list({ limit: 1 }))!.sessions[0]!.id;
    assert(await other.shared.hold(id));
    return opened;
  };
  await play(requests.slice(0, 3), CHAT, open, {
    onError: (error) => void errors.push((error as Error).message),
  });
  assertEquals([errors.length, await other.lastEvent(id)], [1, 2]);
  assertStringIncludes(errors[0]!, `another server holds the session ${id}`);
  await other.shared.release(id);
  await opened!.close();
  assertEquals(await other.lastEvent(id), 3);
  const later = gateway({ ...laterOptions, store: other });
  assertEquals(callsIn(await reportsOf(later)), [3]);
});

const laterOptions = await (async () => {
  let given: GatewayOptions | undefined;
  await play(requests.slice(0, 1), CHAT, (_, options) => gateway(given = options));
  return given!;
})();

Deno.test("shared store: a session that was deleted meanwhile is written as a whole", async () => {
  const store = memoryStore();
  let opened: HttpGateway | undefined;
  await play(requests.slice(0, 12), CHAT, async (at, options) => {
    if (at === 10) {
      const [{ id } = { id: "" }] = await store.listSessions();
      assertEquals(await store.deleteSession(id), true);
    }
    return opened ??= gateway({ ...options, store });
  });
  const before = await reportsOf(opened!);
  await opened!.close();
  const again = await reportsOf(gateway({ ...laterOptions, store }));
  assertEquals(again, before);
  assertEquals(callsIn(again), [12]);
});

for (const dialect of DIALECTS) {
  Deno.test(`restart: sessions are opened by their ids: ${dialect.name}`, async () => {
    const store = memoryStore();
    let given: GatewayOptions | undefined;
    const some = conversation(dialect, MANNERS[0]!).slice(0, 9);
    await play(some, dialect, (_, options) => gateway({ ...(given = options), store }));
    const later = gateway({ ...given!, store });
    const { sessions } = (await later.sessions.list({ limit: 9 }))!;
    const [{ id, title }] = sessions as [GatewaySessionSummary];
    const found = await later.sessions.list({ limit: 9, search: title.toUpperCase() });
    assertEquals([title === "", found], [false, { sessions, hasMore: false }]);
    const opened = (await later.sessions.open(id))!;
    const { prompt, protocol } = await opened.details();
    assertEquals([protocol, prompt!.tokens > 0], [dialect.name, true]);
    assertEquals((await opened.seen()).pins, []);
    assertEquals(await later.sessions.open("none"), undefined);
  });
}
