import { assertEquals } from "@std/assert";
import { Keys } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { sharedMemory } from "../../../tests/shared_memory.ts";
import type { MetricRegistry } from "@tare/session/telemetry";
import {
  agent,
  call,
  error,
  newSession,
  refused,
  request,
  scriptedModel,
  silentModel,
  turn,
} from "../fixture_test.ts";

type Readings = Awaited<ReturnType<Parameters<MetricRegistry["observe"]>[1]>>;

function recorder() {
  const recorded: (readonly [name: string, value: number, facts: unknown])[] = [];
  const observed = new Map<
    string,
    () =>
      | Readings
      | Promise<Readings>
  >();
  const metricRegistry: MetricRegistry = {
    metric: ({ name }) => (value, facts) => recorded.push([name, value, facts]),
    observe: ({ name }, read) => void observed.set(name, read),
    text: () => Promise.resolve("a 1\n"),
    mediaType: "text/plain; version=0.0.4",
  };
  const levels = async () => {
    const read: Record<string, Readings> = {};
    for (const [name, readings] of observed) read[name] = await readings();
    return read;
  };
  return { recorded, metricRegistry, levels };
}

Deno.test("GET /metrics is for the owner and permitted keys, unless it is open", async () => {
  const keys = new Keys({ store: memoryStore(), owners: ["secret"] });
  const secrets = {
    owner: "secret",
    scraper: await keys.add({ name: "scraper", routes: ["metrics"] }),
    alice: await keys.add({ name: "alice", routes: ["gateway", "agent", "approve"] }),
    guest: undefined,
  };
  const statuses = async (isOpen: boolean) => {
    const { metricRegistry } = recorder();
    const { fetch } = agent(scriptedModel([]), {
      keys,
      guests: true,
      metrics: { metricRegistry, isOpen },
    });
    const seen: Record<string, unknown> = {};
    for (const [name, secret] of Object.entries(secrets)) {
      const headers = secret === undefined ? {} : { authorization: `Bearer ${secret}` };
      const response = await fetch(new Request("http://localhost/metrics", { headers }));
      const text = await response.text();
      seen[name] = response.ok ? [response.headers.get("content-type"), text] : response.status;
    }
    const headers = { authorization: `Bearer ${secrets.scraper}`, "content-type": "application/json" };
    const session = await fetch(
      new Request("http://localhost/tare/v1/sessions", { method: "POST", headers, body: "{}" }),
    );
    seen.session = [session.status, await session.text()];
    return seen;
  };
  const metrics = ["text/plain; version=0.0.4", "a 1\n"];
  const session = [
    403,
    JSON.stringify({
      error: {
        status: 403,
        code: "not_for_this_key",
        message: "Forbidden: key scraper is for metrics, not for agent.",
      },
    }),
  ];
  assertEquals(await statuses(false), { owner: metrics, scraper: metrics, alice: 403, guest: 401, session });
  assertEquals(await statuses(true), {
    owner: metrics,
    scraper: metrics,
    alice: metrics,
    guest: metrics,
    session,
  });
});

Deno.test("GET /metrics is missing without metrics", async () => {
  assertEquals(
    await refused(agent(scriptedModel([])), "GET", "/metrics"),
    error(404, "not_found", "Not found: there is no route /metrics."),
  );
});

Deno.test("metrics: requests are recorded by route, never by text of their clients", async () => {
  const { recorded, metricRegistry } = recorder();
  const files = new Map([["/page.css", () => new Response("")]]);
  const handler = agent(scriptedModel([{ content: "a" }]), {
    files,
    metrics: { metricRegistry, isOpen: true },
  });
  const session = await newSession(handler);
  await turn(handler, session, "q");
  await call(handler, "GET", session);
  await call(handler, "GET", "/tare/v1/sessions/unknown");
  await call(handler, "GET", "/unknown/path");
  await call(handler, "DELETE", "/health");
  await (await handler.fetch(request("GET", "/page.css"))).text();
  await (await handler.fetch(new Request("http://elsewhere/health"))).text();
  const requests = recorded.filter(([name]) => name === "http.server.request.duration");
  assertEquals(requests.map(([, , facts]) => Object.values(facts as object)), [
    ["POST", "/tare/v1/sessions", 201],
    ["POST", "/tare/v1/sessions/{id}/turns", 200],
    ["GET", "/tare/v1/sessions/{id}", 200],
    ["GET", "/tare/v1/sessions/{id}", 404],
    ["GET", "none", 404],
    ["DELETE", "none", 405],
    ["GET", "files", 200],
    ["GET", "none", 421],
  ]);
  assertEquals(requests.every(([, seconds]) => seconds >= 0 && seconds < 60), true);
});

Deno.test("metrics: calls of the agent are recorded with their tokens and cost", async () => {
  const { recorded, metricRegistry } = recorder();
  const price = { input: 1_000_000, output: 2_000_000, cacheRead: 100_000 };
  const handler = agent(scriptedModel([{ content: "a" }]), {
    price: () => price,
    metrics: { metricRegistry, isOpen: true },
  });
  await turn(handler, await newSession(handler), "q");
  const ours = recorded.filter(([name]) => /^tare\.(cost|prompt)/.test(name));
  // Nothing was evicted, so that the baseline cost the same.
  assertEquals(ours, [
    ["tare.cost", 9.5, { "gen_ai.request.model": "scripted" }],
    ["tare.cost.baseline", 9.5, { "gen_ai.request.model": "scripted" }],
    ["tare.prompt.tokens", 10, { "gen_ai.request.model": "scripted" }],
    ["tare.prompt.cached_tokens", 5, { "gen_ai.request.model": "scripted" }],
  ]);
  const calls = recorded.filter(([name]) => name === "gen_ai.client.operation.duration");
  assertEquals(calls.length, 1);
});

Deno.test("metrics: running and queued turns, slots, lease and takeovers are read on demand", async () => {
  const shared = sharedMemory();
  const [lost, own] = [shared.open(), shared.open()];
  const { model, requested } = silentModel();
  const { metricRegistry, levels } = recorder();
  const handler = agent(model, {
    store: own.store,
    now: () => Date.now() + 90_000,
    maxRunningTurns: 3,
    metrics: { metricRegistry, isOpen: true },
  });
  const session = await newSession(handler);
  await newSession(handler);
  const idle: Record<string, Readings> = {
    "tare.turns.running": [[0]],
    "tare.turns.slots": [[3]],
    "tare.turns.queued": [[0]],
    "tare.lease.good": [[1]],
    "tare.lease.remaining": [[10]],
    "tare.lease.losses": [[0]],
    "tare.sessions.held": [[0]],
    "tare.sessions.takeovers": [[0]],
  };
  const read = async () => {
    const { "tare.clock.ahead": [[aheadS] = []] = [], ...others } = await levels();
    assertEquals(Math.round(aheadS ?? 0), 90);
    return others;
  };
  assertEquals(await read(), idle);
  await lost.store.shared.hold(session.split("/").at(-1)!);
  lost.kill();
  shared.pass(20_000);
  const played = turn(handler, session, "q");
  await requested;
  const waits = await call(handler, "POST", `${session}/turns`, { input: "Later.", background: true });
  assertEquals(waits.status, 202);
  assertEquals(await read(), {
    ...idle,
    "tare.turns.running": [[1]],
    "tare.turns.queued": [[1]],
    "tare.sessions.held": [[1]],
    "tare.sessions.takeovers": [[1]],
  });
  await handler.close();
  await played;
});
