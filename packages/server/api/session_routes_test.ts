import { assertEquals } from "@std/assert";
import type { Message, Model, Tool } from "@tare/messages";
import { profileNamed, type Quote } from "@tare/planner";
import { promptCost } from "@tare/planner/internal/parts";
import { memoryStore } from "@tare/session/sqlite";
import {
  agent,
  call,
  echo,
  error,
  newSession,
  refused,
  request,
  scriptedModel,
  turn,
  UNREPORTED,
} from "../fixture_test.ts";
import { checker } from "../http/schema.ts";
import { CREATE_SESSION } from "../sessions/session_settings.ts";

Deno.test("sessionRoutes() refuses a session over the limit until one is deleted", async () => {
  const handler = agent(scriptedModel([]), { maxSessions: 2 });
  const session = await newSession(handler);
  await newSession(handler);
  assertEquals(
    await refused(handler, "POST", "/tare/v1/sessions"),
    error(
      507,
      "too_many_sessions",
      "Cannot create a session: 2 of at most 2 are stored. Delete some, or let idle ones expire.",
    ),
  );
  await call(handler, "DELETE", session);
  assertEquals((await call(handler, "POST", "/tare/v1/sessions")).status, 201);
});

Deno.test("sessionRoutes() return archived text as plain text", async () => {
  const store = memoryStore();
  const handler = agent(scriptedModel([]), { store });
  const session = await newSession(handler);
  const ref = await store.archive(session.split("/").at(-1)!).put("<b>original</b>");
  const response = await handler.fetch(
    request("GET", `${session}/archive/${ref}`),
  );
  assertEquals([response.headers.get("content-type"), await response.text()], [
    "text/plain; charset=utf-8",
    "<b>original</b>",
  ]);
});

Deno.test("sessionRoutes() quote the next request, before anything is sent and after", async () => {
  const big: Tool = {
    ...echo,
    stance: "rederivable",
    run: ({ text }) => Array.from({ length: 2_000 }, (_, line) => `line ${line} of ${text}`).join("\n"),
  };
  const reading = (id: string) => ({
    tool_calls: [{ id, type: "function", function: { name: "echo", arguments: `{"text":"${id}"}` } }],
  } as const);
  const profile = profileNamed("anthropic-5m");
  const model = scriptedModel([...["a", "b", "c", "d"].map(reading), { content: "ok" }], UNREPORTED);
  const handler = agent(model, { profile, tools: [big] });
  const session = await newSession(handler);
  const quote = async () => (await call(handler, "GET", `${session}/quote`)).body as Quote;
  const first = await quote();
  assertEquals([first.asIs, first.cacheHitProbability], [first.rewritten, 0]);
  assertEquals(first.asIs.coldCostUnits, first.asIs.promptTokens * profile.write);
  await turn(handler, session, "q");
  const { asIs, rewritten, cacheHitProbability } = await quote();
  assertEquals(cacheHitProbability > 0.9 && asIs.cachedTokens > 0, true);
  assertEquals(asIs.warmCostUnits, promptCost(profile, asIs));
  assertEquals(rewritten.warmCostUnits, promptCost(profile, rewritten));
  assertEquals(rewritten.promptTokens < asIs.promptTokens, true);
  assertEquals(await quote(), { asIs, rewritten, cacheHitProbability });
});

Deno.test("sessionRoutes() quote nothing if the policy has no costs", async () => {
  const handler = agent(scriptedModel([]), { policy: "classic" });
  const session = await newSession(handler);
  assertEquals(
    await refused(handler, "GET", `${session}/quote`),
    error(
      501,
      "not_supported",
      `Cannot quote session ${session.split("/").at(-1)}: the server's policy has no costs. Use the planner.`,
    ),
  );
});

Deno.test("CREATE_SESSION accepts only its own fields", () => {
  const faults = checker(CREATE_SESSION, "the body");
  assertEquals(faults({}), undefined);
  assertEquals(
    faults({
      instructions: "",
      model: "m",
      tools: ["a"],
      metadata: { k: "v" },
      budget: { maxCostUnits: 1 },
    }),
    undefined,
  );
  assertEquals(faults({ model: 1 }), "model must be string");
  assertEquals(
    faults({ tool: [] }),
    "the body must not have 'tool' (allowed: instructions, model, effort, tools, metadata, budget, approvalRules)",
  );
});

Deno.test("sessionRoutes() list sessions page by page, each once, in one query a page", async () => {
  const inner = memoryStore();
  const reads: string[] = [];
  const store = new Proxy(inner, {
    get(target, name: keyof typeof inner) {
      const member = target[name] as (...args: readonly unknown[]) => unknown;
      if (name === "shared") return target.shared;
      return (...args: readonly unknown[]) => {
        reads.push(name);
        return member(...args);
      };
    },
  });
  const handler = agent(scriptedModel([{ content: "a" }]), { store });
  const made: string[] = [];
  for (let index = 0; index < 5; index++) made.unshift((await newSession(handler)).split("/").at(-1)!);
  await turn(handler, `/tare/v1/sessions/${made[0]}`, "q");
  const list = async (query = "") =>
    (await call(handler, "GET", `/tare/v1/sessions${query}`)).body as {
      sessions: { id: string; turns: number; lastEvent: number }[];
      hasMore: boolean;
    };
  reads.length = 0;
  const whole = await list();
  assertEquals(reads, ["listSessions"]);
  assertEquals([whole.sessions.map(({ id }) => id), whole.hasMore], [made, false]);
  assertEquals(whole.sessions.map(({ turns, lastEvent }) => [turns, lastEvent > 0])[0], [1, true]);
  const pages = [await list("?limit=2")];
  while (pages.at(-1)?.hasMore) {
    pages.push(await list(`?limit=2&after=${pages.at(-1)?.sessions.at(-1)?.id}`));
  }
  assertEquals(pages.map(({ sessions }) => sessions.length), [2, 2, 1]);
  assertEquals(pages.flatMap(({ sessions }) => sessions), whole.sessions);
  assertEquals(
    await refused(handler, "GET", "/tare/v1/sessions?after=none"),
    error(404, "not_found", "Cannot find session none: there is no such session."),
  );
  for (const limit of ["0", "1001", "x", ""]) {
    assertEquals((await refused(handler, "GET", `/tare/v1/sessions?limit=${limit}`)).status, 400);
  }
});

Deno.test("sessionRoutes() list the first hundred by default", async () => {
  const store = memoryStore();
  const handler = agent(scriptedModel([]), { store });
  for (let index = 0; index < 101; index++) await newSession(handler);
  const { body } = await call(handler, "GET", "/tare/v1/sessions");
  const { sessions, hasMore } = body as { sessions: unknown[]; hasMore: boolean };
  assertEquals([sessions.length, hasMore], [100, true]);
});

Deno.test("sessionRoutes() return a running turn: its messages so far, and the number of its first event", async () => {
  const spoken = Promise.withResolvers<void>();
  const go = Promise.withResolvers<void>();
  const replies = scriptedModel([
    { content: "a" },
    { tool_calls: [{ id: "c", type: "function", function: { name: "echo", arguments: '{"text":"x"}' } }] },
    { content: "b" },
  ]);
  let calls = 0;
  const model: Model = async function* (request) {
    if (++calls === 3) {
      spoken.resolve();
      await go.promise;
    }
    yield* replies(request);
  };
  const handler = agent(model);
  const session = await newSession(handler);
  const before = (await turn(handler, session, "1")).length;
  const running = turn(handler, session, "2");
  await spoken.promise;
  const bodyOf = async () => {
    const { status, messages, turn } = (await call(handler, "GET", session)).body as Record<string, unknown>;
    const texts = (messages as Message[]).map(({ role, content }) => `${role[0]}: ${content}`);
    return [status, texts, turn];
  };
  const ledger = {
    calls: 1,
    promptTokens: 10,
    cachedTokens: 5,
    outputTokens: 2,
    saved: {},
    estimated: false,
    costUnits: 10,
  };
  const texts = ["s: Be brief.", "u: 1", "a: a", "u: 2", "a: ", "t: x"];
  assertEquals(await bodyOf(), ["running", texts, { after: before, firstMessage: 3, step: 2, ledger }]);
  go.resolve();
  await running;
  assertEquals(await bodyOf(), ["idle", [...texts, "a: b"], undefined]);
});
