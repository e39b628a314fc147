import { assertEquals } from "@std/assert";
import { type CountTokens, estimateTokens } from "@tare/messages";
import { memoryStore } from "@tare/session/sqlite";
import { sharedMemory } from "../../../tests/shared_memory.ts";
import { openStore } from "@tare/session/sqlite";
import { agent, call, newSession, scriptedModel, silentModel, turn } from "../fixture_test.ts";

const unready = (...reasons: string[]) => ({ status: "unready", reasons });

Deno.test("GET /health/ready waits for the token counter, and has it loaded", async () => {
  const loaded = Promise.withResolvers<CountTokens>();
  const handler = agent(scriptedModel([]), { countTokens: () => loaded.promise });
  const ready = async () => {
    const { status, body } = await call(handler, "GET", "/health/ready");
    return [status, body];
  };
  assertEquals(await ready(), [503, unready("the token counter isn't loaded")]);
  loaded.resolve(estimateTokens);
  await loaded.promise;
  assertEquals(await ready(), [200, { status: "ready" }]);
});

Deno.test("GET /health/ready waits a second for the store; GET /health checks nothing", async () => {
  let answers = (): Promise<undefined> => Promise.resolve(undefined);
  const store = { ...memoryStore(), getSession: () => answers() };
  const handler = agent(scriptedModel([]), { store });
  await call(handler, "GET", "/health/ready");
  assertEquals((await call(handler, "GET", "/health/ready")).status, 200);
  for (const broken of [() => Promise.reject(new Error("secret")), () => new Promise<undefined>(() => {})]) {
    answers = broken;
    const { status, body } = await call(handler, "GET", "/health/ready");
    assertEquals([status, body], [503, unready("the store doesn't respond")]);
    assertEquals((await call(handler, "GET", "/health")).body, { status: "ok" });
  }
});

Deno.test("GET /health/ready reports a server that shuts down as unready from the first moment, but alive", async () => {
  const { model, requested } = silentModel();
  const handler = agent(model);
  const played = turn(handler, await newSession(handler), "q");
  await requested;
  assertEquals((await call(handler, "GET", "/health/ready")).status, 200);
  const closed = handler.close();
  const { status, body } = await call(handler, "GET", "/health/ready");
  assertEquals([status, body], [503, unready("the server is shutting down")]);
  assertEquals((await call(handler, "GET", "/health")).status, 200);
  await Promise.all([closed, played]);
});

Deno.test("GET /health/ready reports damage of the store", async () => {
  const handler = agent(scriptedModel([]), { store: { ...memoryStore(), damage: "The log is damaged." } });
  await call(handler, "GET", "/health/ready");
  const { status, body } = await call(handler, "GET", "/health/ready");
  assertEquals([status, body], [503, unready("The log is damaged.")]);
});

Deno.test("GET /health/ready reports a clock that is off by more than a minute", async () => {
  const { store } = sharedMemory().open();
  let aheadMs = 60_000;
  const handler = agent(scriptedModel([]), { store, now: () => Date.now() + aheadMs });
  await call(handler, "GET", "/health/ready");
  const reasons = async () => (await call(handler, "GET", "/health/ready")).body;
  assertEquals(await reasons(), { status: "ready" });
  aheadMs = 61_000;
  const clock = (off: string) =>
    unready(`this machine's clock is ${off} the database's, which all servers use`);
  assertEquals(await reasons(), clock("61 seconds behind"));
  aheadMs = -90_000;
  assertEquals(await reasons(), clock("90 seconds ahead of"));
});

Deno.test("GET /health/ready reports a database file that is gone", async () => {
  const folder = await Deno.makeTempDir();
  const store = await openStore(`${folder}/tare.db`);
  const handler = agent(scriptedModel([]), { store });
  await call(handler, "GET", "/health/ready");
  assertEquals((await call(handler, "GET", "/health/ready")).status, 200);
  await Deno.rename(`${folder}/tare.db`, `${folder}/moved.db`);
  const { status, body } = await call(handler, "GET", "/health/ready");
  assertEquals([status, JSON.stringify(body).includes("tare.db")], [503, true]);
  await store.close();
  await Deno.remove(folder, { recursive: true });
});
