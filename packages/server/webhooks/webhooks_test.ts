import { assert, assertEquals, assertThrows } from "@std/assert";
import { Keys, StoreError } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import type { AssistantMessage, Model } from "@tare/messages";
import type { HttpAgent } from "@tare/server";
import { sharedMemory } from "../../../tests/shared_memory.ts";
import {
  agent,
  call,
  newSession,
  refused,
  scriptedModel,
  silentModel,
  type TestOptions,
  turn,
} from "../fixture_test.ts";
import { FULL } from "../sessions/store_fixture_test.ts";
import {
  addWebhook,
  attemptsOf,
  deliveriesOf,
  receiver,
  verified,
  WaitedClock,
  type WebhookBody,
} from "./receiver_fixture_test.ts";
import { Webhooks } from "./webhooks.ts";
import fc, { cases } from "../../../tests/cases.ts";

const saying = (message: Partial<AssistantMessage>): Model => (request) => scriptedModel([message])(request);

function telling(
  hosts: readonly string[],
  { model = saying({ content: "Done." }), clock = new WaitedClock(), ...options }:
    & Omit<TestOptions, "model" | "clock">
    & {
      readonly model?: Model;
      readonly clock?: WaitedClock;
    } = {},
) {
  const { now, after } = clock;
  const { store, attempted } = attemptsOf(options.store ?? memoryStore({ now }));
  const errors: unknown[] = [];
  const handler = agent(model, {
    ...{ now, onError: (error: unknown) => errors.push(error) },
    webhooks: { hosts, after, random: () => .5, connect: () => Promise.reject(new Error("Not here.")) },
    ...options,
    store,
  });
  return { clock, handler, store, attempted, errors };
}

const outcomes = async (handler: HttpAgent, path: string) =>
  (await deliveriesOf(handler, path)).map(({ status, attempts }) =>
    [status, ...attempts.map(({ status, error }) => status ?? error)].join(" ")
  );
const bodyOf = async (handler: HttpAgent, path: string) =>
  (await call(handler, "GET", path)).body as WebhookBody;
const play = async (handler: HttpAgent) => await turn(handler, await newSession(handler), "Hi");

Deno.test("webhooks: the end of a turn is sent, signed per the specification, and recorded", async () => {
  await using there = receiver();
  const { handler, clock, attempted } = telling([there.host]);
  const { id, path, secret } = await addWebhook(handler, there.url, ["turn.ended", "approval.requested"]);
  const session = await newSession(handler, { metadata: { ticket: "7" } });
  await turn(handler, session, "Hi");
  const received = await there.next();
  const at = new Date(clock.now()).toISOString();
  const { lastEvent, ledger } = (await call(handler, "GET", session)).body as {
    lastEvent: number;
    ledger: unknown;
  };
  assertEquals(verified(received, secret), {
    type: "turn.ended",
    timestamp: at,
    data: {
      session: { id: session.slice("/tare/v1/sessions/".length), metadata: { ticket: "7" } },
      event: lastEvent,
      turn: { reason: "completed", text: "Done.", ledger },
    },
  });
  assertThrows(() => verified({ ...received, body: `${received.body} ` }, secret), Error, "signature");
  await attempted();
  assertEquals(await deliveriesOf(handler, path), [{
    id: received.id,
    type: "turn.ended",
    session: session.slice("/tare/v1/sessions/".length),
    createdAt: at,
    status: "delivered",
    attempts: [{ at, status: 204 }],
  }]);
  assertEquals((await call(handler, "GET", "/tare/v1/webhooks")).body, {
    webhooks: [{ id, url: there.url, types: ["turn.ended", "approval.requested"], createdAt: at }],
  });
  await handler.close();
});

Deno.test("webhooks: a pending approval is sent to its subscribers", async () => {
  await using there = receiver();
  const call = {
    id: "call",
    type: "function",
    function: { name: "echo", arguments: '{"text":"x"}' },
  } as const;
  const { handler, attempted } = telling([there.host], {
    model: saying({ tool_calls: [call] }),
    approvals: {},
    after: () => () => {},
  });
  await addWebhook(handler, `${there.url}/both`, ["turn.ended", "approval.requested"]);
  await addWebhook(handler, `${there.url}/asked`, ["approval.requested"]);
  await play(handler);
  const received = [await there.next(), await there.next(), await there.next()];
  const deliveries = received.map(({ path, body }) => ({ path, ...JSON.parse(body) }))
    .sort((a, b) => a.path + a.type < b.path + b.type ? -1 : 1);
  assertEquals(deliveries.map(({ path, type }) => `${path} ${type}`), [
    "/hook/asked approval.requested",
    "/hook/both approval.requested",
    "/hook/both turn.ended",
  ]);
  const { id, requestedAtMs, expiresAtMs, ...approval } = deliveries[0].data.approvals[0];
  assert(id !== "call" && id === deliveries[1].data.approvals[0].id);
  assert(requestedAtMs < expiresAtMs);
  assertEquals(approval, { callId: "call", name: "echo", arguments: '{"text":"x"}' });
  assertEquals(deliveries[2].data.turn.reason, "approval");
  for (let left = 3; left > 0; left--) await attempted();
  await handler.close();
});

Deno.test("webhooks: a failed delivery is retried with the same id for about a day, then its webhook is disabled", async () => {
  await using there = receiver(() => ({ status: 500 }));
  const { handler, clock, attempted, errors } = telling([there.host]);
  const { id, path, secret } = await addWebhook(handler, there.url);
  await play(handler);
  const ids: string[] = [];
  const waits: number[] = [];
  for (let attempt = 1; attempt <= 11; attempt++) {
    const received = await there.next();
    ids.push(received.id);
    if (attempt === 1) verified(received, secret);
    await attempted();
    if (attempt === 11) break;
    const { ms, pass } = await clock.retries.take();
    waits.push(ms / 1000);
    assertEquals((await bodyOf(handler, path)).disabled, undefined);
    pass();
  }
  assertEquals(waits, [5, 30, 120, 600, 1800, 3600, 7200, 14400, 21600, 36000]);
  assertEquals(new Set(ids), new Set([ids[0]]));
  assertEquals(await outcomes(handler, path), [`failed${" 500".repeat(11)}`]);
  const { failingSince, disabled } = await bodyOf(handler, path);
  assertEquals(disabled?.reason, "failing");
  assertEquals(errors, [
    `Disabled webhook ${id} (${there.url}): no delivery has succeeded since ${failingSince}.`,
  ]);
  await play(handler);
  assertEquals((await deliveriesOf(handler, path)).length, 1);
  assertEquals((await refused(handler, "POST", `${path}/deliveries/${ids[0]}`)).status, 409);
  const enabled = await call(handler, "POST", path, { isEnabled: true });
  assertEquals((enabled.body as WebhookBody).disabled, undefined);
  assertEquals((await call(handler, "POST", `${path}/deliveries/${ids[0]}`)).status, 202);
  assertEquals((await there.next()).id, ids[0]);
  await attempted();
  assertEquals(await outcomes(handler, path), [`waiting${" 500".repeat(12)}`]);
  await handler.close();
});

Deno.test("webhooks: Retry-After and 410 are followed, redirects are not", async () => {
  const answers = [
    { status: 429, headers: { "retry-after": "90" } },
    { status: 302, headers: { location: "/elsewhere" } },
    { status: 204 },
    { status: 410 },
  ];
  await using there = receiver(() => answers.shift()!);
  const { handler, clock, attempted } = telling([there.host]);
  const { path } = await addWebhook(handler, there.url);
  await play(handler);
  for (const wait of [90_000, 30_000]) {
    await there.next();
    await attempted();
    const { ms, pass } = await clock.retries.take();
    assertEquals([ms, (await bodyOf(handler, path)).failingSince !== undefined], [wait, true]);
    pass();
  }
  assertEquals((await there.next()).path, "/hook");
  await attempted();
  assertEquals((await bodyOf(handler, path)).failingSince, undefined);
  await play(handler);
  await there.next();
  await attempted();
  assertEquals((await bodyOf(handler, path)).disabled?.reason, "gone");
  assertEquals(await outcomes(handler, path), ["failed 410", "delivered 429 302 204"]);
  assertEquals(there.left, 0);
  await handler.close();
});

Deno.test("webhooks: a receiver without a response delays no other and times out after fifteen seconds", async () => {
  const never = Promise.withResolvers<void>();
  await using slow = receiver(() => ({ status: 204, until: never.promise }));
  await using quick = receiver();
  const { handler, clock, attempted } = telling([slow.host, quick.host]);
  const { path } = await addWebhook(handler, slow.url);
  for (let turns = 0; turns < 6; turns++) await play(handler);
  const deliveries = [await slow.next(), await slow.next(), await slow.next(), await slow.next()];
  await addWebhook(handler, quick.url);
  await play(handler);
  await quick.next();
  await attempted();
  // Four at a time, of seven.
  assertEquals([new Set(deliveries.map(({ id }) => id)).size, slow.left], [4, 0]);
  (await clock.answers.take()).pass();
  await attempted();
  const late = (await outcomes(handler, path)).filter((outcome) => outcome !== "waiting");
  assertEquals(late, ["waiting No response within 15 seconds."]);
  await slow.next();
  await handler.close();
  never.resolve();
});

Deno.test("webhooks: a shutdown releases deliveries, and the next server sends them", async () => {
  const never = Promise.withResolvers<void>();
  let isSlow = true;
  await using there = receiver(() => ({ status: 204, ...(isSlow && { until: never.promise }) }));
  const clock = new WaitedClock();
  const store = memoryStore({ now: clock.now });
  const first = telling([there.host], { clock, store });
  const { path } = await addWebhook(first.handler, there.url);
  await play(first.handler);
  const { id } = await there.next();
  await first.handler.close();
  isSlow = false;
  const second = telling([there.host], { clock, store });
  await second.handler.attend();
  assertEquals((await there.next()).id, id);
  await second.attempted();
  assertEquals(await outcomes(second.handler, path), ["delivered 204"]);
  await second.handler.close();
  never.resolve();
});

Deno.test("webhooks: deliveries of a killed server are sent by another one with the same id", async () => {
  const never = Promise.withResolvers<void>();
  let isSlow = true;
  await using there = receiver(() => ({ status: 204, ...(isSlow && { until: never.promise }) }));
  const clock = new WaitedClock();
  const memory = sharedMemory();
  const openings = [memory.open({ now: clock.now }), memory.open({ now: clock.now })];
  const [one, other] = openings.map(({ store }) => telling([there.host], { clock, store }));
  const { path } = await addWebhook(one!.handler, there.url);
  await play(one!.handler);
  const { id } = await there.next();
  openings[0]!.kill();
  isSlow = false;
  never.resolve();
  memory.pass(20_000);
  const claims = [await clock.claims.take(), await clock.claims.take()];
  claims[1]!.pass();
  assertEquals((await there.next()).id, id);
  await other!.attempted();
  assertEquals(await outcomes(other!.handler, path), ["delivered 204"]);
  await other!.handler.close();
});

Deno.test("webhooks: several servers on one store send each delivery once", async () => {
  await using there = receiver();
  const clock = new WaitedClock();
  const memory = sharedMemory();
  const servers = [1, 2, 3].map(() =>
    telling([there.host], { clock, store: memory.open({ now: clock.now }).store })
  );
  const { path } = await addWebhook(servers[0]!.handler, there.url);
  // Others read the change within a second.
  clock.skip(1_000);
  await Promise.all(servers.flatMap(({ handler }) => [play(handler), play(handler), play(handler)]));
  const ids: string[] = [];
  while (ids.length < 9) ids.push((await there.next()).id);
  await Promise.all(servers.map(({ handler }) => handler.attend()));
  while ((await outcomes(servers[0]!.handler, path)).some((outcome) => outcome !== "delivered 204")) {
    await Promise.race(servers.map(({ attempted }) => attempted()));
  }
  assertEquals([new Set(ids).size, there.left], [9, 0]);
  for (const { handler } of servers) await handler.close();
});

Deno.test("webhooks: an end that couldn't be committed is not sent", async () => {
  await using there = receiver();
  const clock = new WaitedClock();
  const store = memoryStore({ now: clock.now });
  let isFull = true;
  const { handler, attempted } = telling([there.host], {
    clock,
    store: {
      ...store,
      commit: (records) =>
        isFull && records.some(({ type }) => type === "delivery")
          ? Promise.reject(new StoreError("full", FULL))
          : store.commit(records),
    },
  });
  const { path } = await addWebhook(handler, there.url);
  const session = await newSession(handler);
  await turn(handler, session, "Hi");
  assertEquals(await deliveriesOf(handler, path), []);
  isFull = false;
  await turn(handler, session, "Again");
  const reasons = [await there.next(), await there.next()].map(({ body }) =>
    JSON.parse(body).data.turn.reason
  );
  assertEquals(reasons, ["interrupted", "completed"]);
  await attempted();
  await attempted();
  await handler.close();
});

Deno.test("webhooks: a key's webhooks report only its sessions and are removed with it, the owner's report all", async () => {
  await using there = receiver();
  const clock = new WaitedClock();
  const store = memoryStore({ now: clock.now });
  const keys = new Keys({ store, owners: ["owner"] });
  const { handler, attempted } = telling([there.host], { clock, store, keys });
  const secret = await keys.add({ name: "alice", routes: ["agent"] });
  const as = (token: string): HttpAgent => ({
    ...handler,
    fetch: (request) => {
      request.headers.set("authorization", `Bearer ${token}`);
      return handler.fetch(request);
    },
  });
  const [owner, alice] = [as("owner"), as(secret)];
  const all = await addWebhook(owner, `${there.url}/all`);
  const own = await addWebhook(alice, `${there.url}/own`);
  await play(owner);
  assertEquals((await there.next()).path, "/hook/all");
  await play(alice);
  const deliveries = [await there.next(), await there.next()];
  assertEquals(deliveries.map(({ path }) => path).sort(), ["/hook/all", "/hook/own"]);
  assertEquals(JSON.parse(deliveries[0]!.body).data.session.key, "alice");
  for (let left = 3; left > 0; left--) await attempted();
  const listed = async (handler: HttpAgent) =>
    ((await call(handler, "GET", "/tare/v1/webhooks")).body as { webhooks: WebhookBody[] }).webhooks
      .map(({ id }) => id).sort();
  assertEquals([await listed(owner), await listed(alice)], [[all.id, own.id].sort(), [own.id]]);
  for (const [method, path] of [["GET", all.path], ["DELETE", all.path], ["POST", `${all.path}/secret`]]) {
    assertEquals((await refused(alice, method!, path!, method === "POST" ? {} : undefined)).status, 404);
  }
  await call(owner, "DELETE", "/tare/v1/keys/alice");
  assertEquals(await listed(owner), [all.id]);
  await handler.close();
});

Deno.test("webhooks: a replaced secret signs for one more day", async () => {
  await using there = receiver();
  const { handler, attempted, clock } = telling([there.host]);
  const { path, secret } = await addWebhook(handler, there.url);
  const { body } = await call(handler, "POST", `${path}/secret`, {});
  const { secret: newer } = body as { secret: string };
  await play(handler);
  const both = await there.next();
  assertEquals([verified(both, secret), verified(both, newer)], [
    JSON.parse(both.body),
    JSON.parse(both.body),
  ]);
  await attempted();
  clock.skip(24 * 60 * 60_000);
  await play(handler);
  const later = await there.next();
  assertEquals(later.headers["webhook-signature"]!.split(" ").length, 1);
  await attempted();
  await call(handler, "DELETE", path);
  assertEquals((await refused(handler, "GET", path)).status, 404);
  assertEquals((await refused(handler, "GET", `${path}/deliveries`)).status, 404);
  await handler.close();
});

Deno.test("webhooks: a turn that waited is reported by its original id, also from another server", async () => {
  await using there = receiver();
  const clock = new WaitedClock();
  const memory = sharedMemory();
  const [lost, retained] = [memory.open({ now: clock.now }), memory.open({ now: clock.now })];
  const silent = silentModel();
  const first = agent(silent.model, {
    ...{ store: lost.store, now: clock.now, webhooks: { hosts: [there.host], after: clock.after } },
    clock: { now: () => 0, after: () => () => {} },
    after: () => () => {},
  });
  const { handler, attempted } = telling([there.host], { clock, store: retained.store });
  await addWebhook(first, there.url);
  clock.skip(1_000);
  const session = await newSession(first);
  const wait = async (handler: HttpAgent) => {
    const { body } = await call(handler, "POST", `${session}/turns`, { input: "Hi", background: true });
    return (body as { queued: { id: string } }).queued.id;
  };
  const nextTurn = async () => JSON.parse((await there.next()).body).data.turn;
  const id = await wait(first);
  await silent.requested;
  lost.kill();
  memory.pass(20_000);
  const { id: endedId, reason } = await nextTurn();
  assertEquals([endedId, reason], [id, "completed"]);
  await attempted();
  const next = await wait(handler);
  assertEquals((await nextTurn()).id, next);
  await attempted();
  await turn(handler, session, "Again");
  assertEquals((await nextTurn()).id, undefined);
  await attempted();
  await handler.close();
});

Deno.test("webhooks: deliveries expire after thirty days", async () => {
  await using there = receiver();
  const { handler, attempted, clock } = telling([there.host]);
  const { path } = await addWebhook(handler, there.url);
  await play(handler);
  await attempted();
  clock.skip(30 * 24 * 60 * 60_000 + 1);
  await play(handler);
  await attempted();
  const [before, newest] = [await there.next(), await there.next()];
  await handler.close();
  assertEquals((await deliveriesOf(handler, path)).map(({ id }) => id), [newest.id]);
  assertEquals((await refused(handler, "POST", `${path}/deliveries/${before.id}`)).status, 404);
});

Deno.test("webhooks: deliveries continue after a failure of the store, which is logged", async () => {
  await using there = receiver();
  const clock = new WaitedClock();
  const store = memoryStore({ now: clock.now });
  let failsOnce = true;
  const { handler, attempted, errors } = telling([there.host], {
    clock,
    store: {
      ...store,
      claimDeliveries(wanted) {
        if (!failsOnce) return store.claimDeliveries(wanted);
        failsOnce = false;
        return Promise.reject(new StoreError("io", "The database is away."));
      },
    },
  });
  const { path } = await addWebhook(handler, there.url);
  await play(handler);
  const { ms, pass } = await clock.retries.take();
  assertEquals([ms, errors.map(String)], [5_000, ["StoreError: The database is away."]]);
  pass();
  await there.next();
  await attempted();
  assertEquals(await outcomes(handler, path), ["delivered 204"]);
  await handler.close();
});

Deno.test("webhooks: hosts are listed by name, and * allows public ones by HTTPS", async () => {
  const why = async (hosts: readonly string[], url: string) => {
    const { handler } = telling(hosts);
    const { status, body } = await refused(handler, "POST", "/tare/v1/webhooks", {
      url,
      types: ["turn.ended"],
    });
    return status === 201
      ? "taken"
      : (body as { error: { message: string } }).error.message.split(": ").at(-1);
  };
  const few = ["hooks.example", "127.0.0.1:9000"];
  const unlisted = (host: string) =>
    `TARE_WEBHOOK_HOSTS doesn't list ${host}, only hooks.example, 127.0.0.1:9000.`;
  const own = (host: string) =>
    `${host} isn't a public address. List hosts of your own network in TARE_WEBHOOK_HOSTS by name.`;
  const wanted: readonly (readonly [readonly string[], string, string])[] = [
    [few, "https://hooks.example/a", "taken"],
    [few, "http://hooks.example:81/a", "taken"],
    [few, "http://127.0.0.1:9000", "taken"],
    [few, "http://127.0.0.1:9001", unlisted("127.0.0.1:9001")],
    [few, "https://hooks.example.org", unlisted("hooks.example.org")],
    [few, "ftp://hooks.example", "the address must begin with https://."],
    [few, "hooks.example", "the address must begin with https://."],
    [
      few,
      "https://me:secret@hooks.example",
      "it contains a user or a password; requests are signed with the secret instead.",
    ],
    [["*"], "https://elsewhere.example", "taken"],
    [["*"], "https://93.184.216.34/", "taken"],
    [["*"], "https://[2606:2800::1]/", "taken"],
    [
      ["*"],
      "http://elsewhere.example",
      "elsewhere.example requires https://, because TARE_WEBHOOK_HOSTS doesn't list it by name.",
    ],
    [["*", "10.0.0.7"], "http://10.0.0.7/", "taken"],
    ...[
      ...["127.0.0.1", "10.0.0.8", "169.254.169.254", "192.168.1.1", "172.31.0.1", "100.64.0.1", "0.0.0.0"],
      ...[
        "[::1]",
        "[::]",
        "[fd00::1]",
        "[fe80::1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
      ],
    ].map((host) => [["*"], `https://${host}/`, own(host)] as const),
    [["*"], "https://0x7f.1/", own("127.0.0.1")],
  ];
  for (const [hosts, url, expected] of wanted) assertEquals(await why(hosts, url), expected, url);
  const { handler } = telling([]);
  await handler.close();
  assertEquals((await refused(agent(saying({})), "GET", "/tare/v1/webhooks")).status, 501);
});

Deno.test("webhooks: with * a name is resolved once, and private addresses are refused", async () => {
  await using there = receiver(() => ({ status: 503, headers: { "retry-after": "7" } }));
  const clock = new WaitedClock();
  const found = [["127.0.0.1"], ["93.184.216.34", "::1"], ["93.184.216.34"]];
  const delays: unknown[] = [];
  const { handler, attempted } = telling([], {
    clock,
    webhooks: {
      ...{ hosts: ["*"], after: clock.after, random: () => .5 },
      lookup(host) {
        delays.push(host);
        return Promise.resolve(found.shift()!);
      },
      // A plain connection: there is no certificate for the name.
      connect(to) {
        delays.push(to);
        const [hostname, port] = there.host.split(":");
        return Deno.connect({ hostname: hostname!, port: Number(port) });
      },
    },
  });
  const { path, secret } = await addWebhook(handler, "https://inside.example/x?y=ü");
  await play(handler);
  for (let wrong = 2; wrong > 0; wrong--) {
    await attempted();
    (await clock.retries.take()).pass();
  }
  const received = await there.next();
  assertEquals(verified(received, secret), JSON.parse(received.body));
  assertEquals([received.path, received.headers.host], ["/x", "inside.example"]);
  await attempted();
  const not =
    " Not sent: inside.example isn't a public address. List hosts of your own network in TARE_WEBHOOK_HOSTS " +
    "by name.";
  assertEquals(await outcomes(handler, path), [`waiting${not}${not} 503`]);
  assertEquals(delays, [
    ...["inside.example", "inside.example", "inside.example"],
    { host: "inside.example", address: "93.184.216.34", port: 443 },
  ]);
  assertEquals((await clock.retries.take()).ms, 120_000);
  await handler.close();
});

Deno.test("webhooks: concurrent changes, removals and deliveries are atomic or refused", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.shuffledSubarray(["url", "types", "rotate", "disable", "redeliver", "remove"], { minLength: 2 }),
      async (scheduler, actions) => {
        const clock = new WaitedClock();
        const memory = memoryStore({ now: clock.now });
        let isRacing = false;
        const raced = <A extends unknown[], R>(act: (...args: A) => Promise<R>) => {
          const late = scheduler.scheduleFunction(act);
          return (...args: A) => isRacing ? late(...args) : act(...args);
        };
        const store = {
          ...memory,
          getDocument: raced(memory.getDocument),
          listDocuments: raced(memory.listDocuments),
          commit: raced(memory.commit),
        };
        // The receiver is missing: each delivery waits for its next attempt.
        const { handler, attempted, errors } = telling(["127.0.0.1:9"], { clock, store });
        const { path, secret } = await addWebhook(handler, "http://127.0.0.1:9/a");
        await play(handler);
        await attempted();
        const [delivery] = await deliveriesOf(handler, path);
        const send = (method: string, at = "", body?: unknown) => call(handler, method, `${path}${at}`, body);
        const does: Readonly<Record<string, () => ReturnType<typeof call>>> = {
          url: () => send("POST", "", { url: "http://127.0.0.1:9/b" }),
          types: () => send("POST", "", { types: ["approval.requested"] }),
          rotate: () => send("POST", "/secret"),
          disable: () => send("POST", "", { isEnabled: false }),
          redeliver: () => send("POST", `/deliveries/${delivery!.id}`),
          remove: () => send("DELETE"),
        };
        isRacing = true;
        const racing = Promise.all(actions.map(async (action) => ({ action, ...await does[action]!() })));
        const done = await scheduler.waitFor(racing);
        isRacing = false;
        for (const { action, status } of done) {
          const isRefused = action === "redeliver" && actions.includes("disable") && status === 409 ||
            action !== "remove" && actions.includes("remove") && status === 404;
          if (!isRefused) assert(status < 300, `${action}: ${status}`);
        }
        const after = await call(handler, "GET", "/tare/v1/webhooks");
        assertEquals(after.status, 200);
        const [webhook] = (after.body as { webhooks: Record<string, unknown>[] }).webhooks;
        const stored = await memory.listDocuments("webhook");
        if (actions.includes("remove")) {
          assertEquals([webhook, stored, await memory.listDeliveries(path.split("/").at(-1)!)], [
            undefined,
            [],
            [],
          ]);
        } else {
          assertEquals(
            [webhook!.url, webhook!.types, webhook!.disabled !== undefined, stored.length],
            [
              `http://127.0.0.1:9/${actions.includes("url") ? "b" : "a"}`,
              [actions.includes("types") ? "approval.requested" : "turn.ended"],
              actions.includes("disable"),
              1,
            ],
          );
          const { secrets } = stored[0]!.value as { secrets: readonly { secret: string }[] };
          assertEquals(
            secrets.map((one) => one.secret === secret),
            actions.includes("rotate") ? [false, true] : [true],
          );
        }
        assertEquals(errors, []);
        await scheduler.waitFor(handler.close());
      },
    ),
    { numRuns: cases(6) },
  );
});

Deno.test("webhooks: concurrent additions of several servers respect the limit of 50 per key", async () => {
  const memory = sharedMemory();
  const servers = [1, 2].map(() => telling(["127.0.0.1:9"], { store: memory.open().store }).handler);
  const add = (handler: HttpAgent) =>
    call(handler, "POST", "/tare/v1/webhooks", { url: "http://127.0.0.1:9/", types: ["turn.ended"] });
  const count = async () => (await memory.open().store.listDocuments("webhook")).length;
  for (let made = 0; made < 47; made++) await add(servers[0]!);
  const added = await Promise.all([1, 2, 3].flatMap(() => servers.map(add)));
  assertEquals(added.map(({ status }) => status).sort(), [201, 201, 201, 400, 400, 400]);
  assertEquals(await count(), 50);
  const { body } = await call(servers[1]!, "GET", "/tare/v1/webhooks");
  const { webhooks: [first] } = body as { webhooks: readonly WebhookBody[] };
  await call(servers[1]!, "DELETE", `/tare/v1/webhooks/${first!.id}`);
  assertEquals([(await add(servers[0]!)).status, (await add(servers[1]!)).status], [201, 400]);
  for (const handler of servers) await handler.close();
});

Deno.test("webhooks: a damaged record is omitted with one warning, without delaying or failing turns", async () => {
  await using there = receiver();
  const clock = new WaitedClock();
  const memory = memoryStore({ now: clock.now });
  await memory.commit([{ type: "document", kind: "webhook", id: "wh_broken", value: { url: "http://a" } }]);
  let isAway = false;
  const never = Promise.withResolvers<never>();
  const store: typeof memory = {
    ...memory,
    // Simulates a shared store, whose changes are read again.
    shared: {} as NonNullable<typeof memory.shared>,
    listDocuments: (kind, damaged) => {
      damaged?.("wh_torn", new StoreError("corrupt", "Its checksum doesn't match."));
      return isAway ? never.promise : memory.listDocuments(kind, damaged);
    },
  };
  const webhooks = new Webhooks({
    store,
    reach: { hosts: [there.host] },
    onError: (error) => errors.push(error),
  });
  const errors: unknown[] = [];
  const { id } = await webhooks.add({ url: there.url, types: ["turn.ended"] }, Keys.OWNER);
  await webhooks.ready();
  assertEquals([webhooks.enabled().map((one) => one.id), errors.length], [[id], 2]);
  assert(String(errors[0]).startsWith('Cannot use document "wh_torn" of kind "webhook": Its checksum'));
  assert(
    String(errors[1]).startsWith('Cannot use document "wh_broken" of kind "webhook": Cannot read a webhook'),
  );
  // A turn runs while the records can't be read.
  const { handler } = telling([there.host], {
    clock,
    store: { ...store, shared: undefined as never },
    model: async function* (request) {
      isAway = true;
      clock.skip(10_000);
      yield* scriptedModel([{ content: "Done." }])(request);
    },
  });
  const session = await newSession(handler);
  assertEquals((await turn(handler, session, "Hi")).at(-1)?.event.type, "turn_end");
  assertEquals((await memory.listDeliveries(id)).length, 1);
  const failing = telling([there.host], {
    clock,
    store: { ...memory, listDocuments: () => Promise.reject(new StoreError("io", "The records are away.")) },
  });
  const other = await newSession(failing.handler);
  assertEquals((await turn(failing.handler, other, "Hi")).at(-1)?.event.type, "turn_end");
  assertEquals(String(failing.errors[0]), "StoreError: The records are away.");
});

Deno.test("webhooks: a long text is cut between characters", async () => {
  await using there = receiver();
  const { handler, attempted } = telling([there.host], {
    model: saying({ content: `a${"👍".repeat(5_000)}` }),
  });
  const { secret } = await addWebhook(handler, there.url);
  await play(handler);
  const { data: { turn: { text } } } = verified(await there.next(), secret) as {
    data: { turn: { text: string } };
  };
  assertEquals(text === `a${"👍".repeat(4_999)}…`, true);
  await attempted();
  await handler.close();
});

Deno.test("webhooks: a webhook disabled during an attempt retains its reason", async () => {
  const answer = Promise.withResolvers<void>();
  await using there = receiver(() => ({ status: 410, until: answer.promise }));
  const { handler, attempted, errors } = telling([there.host]);
  const { path } = await addWebhook(handler, there.url);
  await play(handler);
  await there.next();
  await call(handler, "POST", path, { isEnabled: false });
  answer.resolve();
  await attempted();
  assertEquals([(await bodyOf(handler, path)).disabled?.reason, errors], ["requested", []]);
  await handler.close();
});

Deno.test("webhooks: a delivery that fails for a day disables its webhook only if no other succeeded", async () => {
  let failing: string | undefined;
  await using there = receiver(({ id }) => ({ status: id === (failing ??= id) ? 500 : 204 }));
  const { handler, clock, attempted, errors } = telling([there.host]);
  const { path } = await addWebhook(handler, there.url);
  await play(handler);
  await there.next();
  await attempted();
  await play(handler);
  await there.next();
  await attempted();
  const passAll = async () => {
    for (;;) (await clock.retries.take()).pass();
  };
  void passAll();
  for (let attempt = 2; attempt <= 11; attempt++) await attempted();
  assertEquals(await outcomes(handler, path), ["delivered 204", `failed${" 500".repeat(11)}`]);
  const { disabled, failingSince } = await bodyOf(handler, path);
  assertEquals([disabled, failingSince !== undefined, errors], [undefined, true, []]);
  await handler.close();
});

Deno.test("webhooks: a receiver can delay the next attempt by a day at most", async () => {
  const delays = ["1000000", "Thu, 01 Jan 2099 00:00:00 GMT", "86400", "1"];
  await using there = receiver(() => ({ status: 503, headers: { "retry-after": delays.shift()! } }));
  const { handler, clock, attempted } = telling([there.host]);
  await addWebhook(handler, there.url);
  await play(handler);
  const waits: number[] = [];
  while (waits.length < 4) {
    await there.next();
    await attempted();
    const { ms, pass } = await clock.retries.take();
    waits.push(ms);
    if (waits.length < 4) pass();
  }
  assertEquals(waits, [86_400_000, 86_400_000, 86_400_000, 600_000]);
  await handler.close();
});
