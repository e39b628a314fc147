import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { type Store, StoreError } from "@tare/session";
import type { StoreRecord } from "@tare/session/internal";
import { memoryStore } from "@tare/session/sqlite";
import {
  Accounts,
  type CallReport,
  type Overview,
  type PromptReport,
  type reportBlock,
  type reportSpend,
} from "@tare/session/internal/report";
import { gateway } from "@tare/gateway";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { agent, call, events, newSession, request, scriptedModel, turn } from "../fixture_test.ts";
import type { MissesReport } from "./misses.ts";
import type { SessionSpend } from "./session_spend.ts";

function both(
  { holdout = 0, store = memoryStore() }: { readonly holdout?: number; readonly store?: Store } = {},
) {
  let nowMs = Date.UTC(2026, 0, 1);
  const now = () => nowMs += 1_000;
  const countTokens = () => Promise.resolve(estimateTokens);
  const usage = { prompt_tokens: 1_000, completion_tokens: 5, total_tokens: 1_005 };
  const choices = [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }];
  const passing = gateway({
    upstreams: {
      chat: { baseURL: "http://provider.example/v1", apiKey: "sk", profile: profileNamed("none") },
    },
    countTokens,
    holdout,
    store,
    now,
    fetch: () => Promise.resolve(Response.json({ object: "chat.completion", choices, usage })),
  });
  const server = agent(scriptedModel(Array(9).fill({ content: "a" })), {
    gateway: passing,
    store,
    now,
  });
  return {
    server,
    async restart() {
      await server.close();
      await passing.close();
      return both({ holdout, store });
    },
    async ask(content: string, more: readonly object[] = []) {
      const messages = [{ role: "user", content }, ...more];
      const response = await server.fetch(request("POST", "/v1/chat/completions", { model: "m", messages }));
      await response.body?.cancel();
      return response.headers.get("x-tare-session")!;
    },
    async get<T>(path: string): Promise<T> {
      return (await call(server, "GET", path)).body as T;
    },
  };
}

interface Page {
  readonly sessions: readonly { readonly id: string; readonly kind: string; readonly createdAt: string }[];
  readonly hasMore: boolean;
}

Deno.test("GET /tare/v1/sessions lists both kinds, the newest first, and either alone", async () => {
  const { server, ask, get } = both();
  const made: string[] = [];
  for (const title of ["one", "two", "three"]) {
    made.unshift(await ask(`Passing ${title}`));
    made.unshift((await newSession(server)).split("/").at(-1)!);
    await turn(server, `/tare/v1/sessions/${made[0]}`, `Own ${title}`);
  }
  const ids = ({ sessions }: Page) => sessions.map(({ id }) => id);
  const all = await get<Page>("/tare/v1/sessions");
  assertEquals([ids(all), all.hasMore], [made, false]);
  assertEquals(all.sessions.map(({ kind }) => kind), Array(3).fill(["agent", "gateway"]).flat());
  const own = made.filter((_, at) => at % 2 === 0);
  const passing = made.filter((_, at) => at % 2 === 1);
  assertEquals(ids(await get("/tare/v1/sessions?kind=agent")), own);
  assertEquals(ids(await get("/tare/v1/sessions?kind=gateway")), passing);
  for (const [kind, expected] of [["", made], ["kind=agent&", own], ["kind=gateway&", passing]] as const) {
    for (const limit of [1, 2, 4]) {
      const seen: string[] = [];
      for (let more = true; more;) {
        const after = seen.length === 0 ? "" : `&after=${seen.at(-1)}`;
        const page = await get<Page>(`/tare/v1/sessions?${kind}limit=${limit}${after}`);
        seen.push(...ids(page));
        more = page.hasMore;
        assertEquals(more, seen.length < expected.length);
      }
      assertEquals(seen, expected);
    }
  }
  assertEquals(ids(await get("/tare/v1/sessions?search=TWO")), made.slice(2, 4));
  assertEquals(ids(await get("/tare/v1/sessions?search=passing")), passing);
  for (const query of [`kind=agent&after=${passing[0]}`, `kind=gateway&after=${own[0]}`]) {
    assertEquals((await call(server, "GET", `/tare/v1/sessions?${query}`)).status, 404);
  }
});

Deno.test("sessions: an agent's session without a title has the user's first message", async () => {
  const { server, get } = both();
  const lines = ["<environment_context>\n/work\n</environment_context>", "Look."].map((content) =>
    JSON.stringify({ role: "user", content })
  );
  const response = await server.fetch(
    new Request("http://localhost/tare/v1/sessions/import", {
      method: "POST",
      body: lines.join("\n"),
      headers: { "content-type": "application/x-ndjson" },
    }),
  );
  const { sessions: [imported] } = await response.json();
  const begun = await newSession(server);
  for (
    const input of ["<system-reminder>Be brief.</system-reminder>", "<task>\nFind it.\n</task>", "Go on."]
  ) {
    await turn(server, begun, input);
  }
  const { title } = await get<{ readonly title: string }>(begun);
  assertEquals([imported.title, title], ["Look.", "Find it."]);
});

Deno.test("sessions: their routes also accept gateway sessions", async () => {
  const { server, ask, get } = both();
  const answer = { role: "assistant", content: "Hi" };
  const id = await ask("First.");
  assertEquals(await ask("First.", [answer, { role: "user", content: "Second." }]), id);
  const path = `/tare/v1/sessions/${id}`;
  const session = await get<Record<string, unknown>>(path);
  assertEquals(
    [session.kind, session.id, session.title, session.calls, session.promptTokens],
    ["gateway", id, "First.", 2, 2_000],
  );
  const { calls } = await get<{ calls: readonly CallReport[] }>(`${path}/calls?limit=1&after=1`);
  assertEquals(calls.map(({ number, promptTokens }) => [number, promptTokens]), [[2, 1_000]]);
  const { blocks, total } = await get<PromptReport>(`${path}/prompt?limit=2`);
  assertEquals([blocks.map(({ title }) => title), total], [["First.", "Hi"], 3]);
  const block = await get<NonNullable<ReturnType<typeof reportBlock>>>(
    `${path}/prompt/${blocks[0]!.id}?offset=2`,
  );
  assertEquals(block.now, { text: "rst.", offset: 2, chars: 6 });

  const pin = { place: 1, wish: "retain", by: "ada" };
  const pinned = await call(server, "POST", `${path}/pins`, pin);
  assertEquals([pinned.status, pinned.body], [200, { ...pin, state: "done" }]);
  assertEquals(await get(`${path}/pins`), { pins: [{ ...pin, state: "done" }] });
  const refusedPin = await call(server, "POST", `${path}/pins`, { place: 0, wish: "evict" });
  assertEquals(refusedPin.status, 400);
  assertStringIncludes(JSON.stringify(refusedPin.body), "Cannot evict message 0: it is the user's");
  assertEquals((await call(server, "DELETE", `${path}/pins/1`)).status, 204);
  for (const missing of [`${path}/pins/1`, `${path}/pins/x`]) {
    assertEquals((await call(server, "DELETE", missing)).status, 404);
  }
  for (const missing of [`${path}/archive/0123456789abcdef`, `${path}/prompt/line-9`]) {
    assertEquals((await call(server, "GET", missing)).status, 404);
  }
  assertEquals((await call(server, "HEAD", path)).status, 200);
  const refused = await call(server, "PUT", path);
  assertEquals([refused.status, refused.headers.get("allow")], [405, "GET, HEAD, DELETE"]);
  const remove = () =>
    server.fetch(
      new Request(`http://localhost${path}`, { method: "DELETE", headers: { "idempotency-key": "k" } }),
    );
  for (const replayed of [null, "true"]) {
    const { status, headers } = await remove();
    assertEquals([status, headers.get("idempotent-replayed")], [204, replayed]);
  }
  assertEquals((await call(server, "GET", path)).status, 404);
  assert(await ask("First.") !== id);
});

Deno.test("gateway sessions: a change and its idempotent response are committed together, or neither", async () => {
  const commits: (readonly StoreRecord[])[] = [];
  const full: string[] = [];
  const memory = memoryStore();
  const store: Store = {
    ...memory,
    async commit(records) {
      if (full.length > 0) throw new StoreError("full", full[0]!);
      commits.push(records);
      await memory.commit(records);
    },
  };
  const { server, ask } = both({ store });
  const id = await ask("First.");
  const send = async (what: string, body: object) => {
    commits.length = 0;
    const headers = { "content-type": "application/json", "idempotency-key": what };
    const url = `http://localhost/tare/v1/sessions/${id}/${what}`;
    const { status } = await server.fetch(
      new Request(url, { method: "POST", headers, body: JSON.stringify(body) }),
    );
    return [
      status,
      ...commits.map((records) =>
        records.flatMap((record) =>
          record.type === "response" ? [record.key] : record.type === "state" ? [record.name] : []
        )
      ),
    ];
  };
  const pin = { place: 0, wish: "retain" };
  assertEquals(await send("pins", pin), [200, ["patch", "totals", "pins"]]);
  assertEquals(await send("pins", pin), [200]);
  full.push("no room");
  assertEquals(await send("title", { title: "Notes" }), [507]);
  full.pop();
  assertEquals(await send("title", { title: "Notes" }), [200, ["patch", "title", "totals", "title"]]);
  assertEquals(await send("title", { title: "Notes" }), [200]);
});

Deno.test("gateway sessions: the user's title is kept, before the first response and over a restart", async () => {
  const { server, ask, get, restart } = both();
  const answer = { role: "assistant", content: "Hi" };
  const id = await ask("First.");
  const path = `/tare/v1/sessions/${id}`;
  const rename = () =>
    server.fetch(
      new Request(`http://localhost${path}/title`, {
        method: "POST",
        headers: { "content-type": "application/json", "idempotency-key": "k" },
        body: JSON.stringify({ title: " The\nnotes " }),
      }),
    );
  for (const replayed of [null, "true"]) {
    const response = await rename();
    const { kind, title } = await response.json();
    assertEquals([response.status, response.headers.get("idempotent-replayed")], [200, replayed]);
    assertEquals([kind, title], ["gateway", "The notes"]);
  }
  assertEquals(await ask("First.", [answer, { role: "user", content: "Second." }]), id);
  const titles = async (page: Promise<{ readonly sessions: readonly { readonly title: string }[] }>) =>
    (await page).sessions.map(({ title }) => title);
  assertEquals(await titles(get("/tare/v1/sessions?search=notes")), ["The notes"]);
  const more = [answer, { role: "user", content: "Second." }, answer, { role: "user", content: "Third." }];
  const again = await restart();
  assertEquals(await again.ask("First.", more), id);
  assertEquals(await titles(again.get("/tare/v1/sessions")), ["The notes"]);
  assertEquals((await call(server, "POST", "/tare/v1/sessions/none/title", { title: "x" })).status, 404);
});

Deno.test("gateway sessions: routes of the agent's sessions respond with advice", async () => {
  const { server, ask } = both({ holdout: 1 });
  const id = await ask("First.");
  const path = `/tare/v1/sessions/${id}`;
  for (
    const [method, rest, body] of [
      ["POST", "turns", { input: "q" }],
      ["POST", "cancel", {}],
      ["GET", "events", undefined],
      ["GET", "quote", undefined],
      ["GET", "export", undefined],
      ["GET", "approvals", undefined],
      ["POST", "approvals/c1", { decision: "allow" }],
    ] as const
  ) {
    const { status, body: answer } = await call(server, method, `${path}/${rest}`, body);
    const { error: { code, message } } = answer as { error: { code: string; message: string } };
    assertEquals([rest, status, code], [rest, 501, "not_supported"]);
    assertStringIncludes(
      message,
      "the session is another agent's. Continue in that agent",
    );
  }
  const pinned = await call(server, "POST", `${path}/pins`, { place: 0, wish: "retain" });
  assertEquals([pinned.status, (pinned.body as { error: object }).error], [501, {
    status: 501,
    code: "not_supported",
    message: "Cannot pin message 0: this session's prompts are sent unchanged.",
  }]);
});

Deno.test("GET /tare/v1/overview totals both kinds, and returns either alone", async () => {
  const { server, ask, get } = both();
  await ask("First.");
  await turn(server, await newSession(server), "q");
  const [all, own, passing] = [
    await get<Overview>("/tare/v1/overview"),
    await get<Overview>("/tare/v1/overview?kind=agent"),
    await get<Overview>("/tare/v1/overview?kind=gateway"),
  ];
  assertEquals([all, own, passing].map(({ all: { calls, promptTokens } }) => [calls, promptTokens]), [
    [2, 1_010],
    [1, 10],
    [1, 1_000],
  ]);
  assertEquals([all, own, passing].map(({ groups: { planned } }) => planned.sessions), [2, 1, 1]);
});

Deno.test("GET /tare/v1/spend groups the cost of both kinds, and a session returns its own", async () => {
  const { server, ask, get } = both();
  const passing = await ask("First.");
  const own = (await newSession(server)).split("/").at(-1)!;
  await turn(server, `/tare/v1/sessions/${own}`, "Mine.");
  const rows = async (query: string) =>
    (await get<ReturnType<typeof reportSpend>>(`/tare/v1/spend?${query}`)).rows.map((
      { key, calls, unpricedCalls, session },
    ) => [
      ...[key, calls, unpricedCalls, session?.title],
    ]);
  assertEquals(await rows("by=session"), [[passing, 1, 1, "First."], [own, 1, 1, "Mine."]]);
  assertEquals(await rows("by=agent"), [["", 1, 1, undefined], ["tare", 1, 1, undefined]]);
  assertEquals(await rows("by=model"), [["m", 1, 1, undefined], ["scripted", 1, 1, undefined]]);
  assertEquals(await rows("from=2026-01-01&to=2026-01-01"), [["2026-01-01", 2, 2, undefined]]);
  assertEquals(await rows("from=2026-01-02"), []);
  const { all, hasMore } = await get<ReturnType<typeof reportSpend>>(
    "/tare/v1/spend?by=session&limit=1",
  );
  assertEquals([all.calls, all.promptTokens, all.newCostUnits, hasMore], [2, 1_010, 1_005, true]);
  // A first request without tools may be for a title: it belongs to no turn until the next one continues it.
  for (const [id, tokens, turn] of [[passing, 1_000, null], [own, 10, 1]] as const) {
    const spend = await get<SessionSpend>(`/tare/v1/sessions/${id}/spend`);
    assertEquals([spend.all.promptTokens, spend.turns.map(({ turn, calls }) => [turn, calls])], [tokens, [
      [turn, 1],
    ]]);
  }
  assertEquals((await call(server, "GET", "/tare/v1/spend?from=yesterday")).status, 400);
  assertEquals((await call(server, "GET", "/tare/v1/sessions/none/spend")).status, 404);
});

Deno.test("approvals: a call can be answered whatever its id is", async () => {
  for (const id of ["functions.shell:0", "a/b", "50%", "a%2Fb", "ü ?#"]) {
    const tool_calls = [{
      id,
      type: "function",
      function: { name: "echo", arguments: '{"text":"hi"}' },
    }] as const;
    const server = agent(scriptedModel([{ tool_calls }, { content: "Done." }]), { approvals: { rules: [] } });
    const session = await newSession(server);
    await turn(server, session, "q");
    const { body } = await call(server, "GET", `${session}/approvals`);
    const path = `${session}/approvals/${(body as { approvals: { id: string }[] }).approvals[0]?.id}`;
    const answered = await call(server, "POST", path, { decision: "allow" });
    assertEquals([id, answered.status], [id, 200]);
    const after = (answered.body as { after: number }).after;
    const rest = await events(await server.fetch(request("GET", `${session}/events?after=${after}`)));
    assertEquals(rest.at(-1)?.event.type, "turn_end");
  }
});

Deno.test("GET /tare/v1/misses returns the causes of cache misses of both kinds, or of one session", async () => {
  const { server, ask, get } = both();
  await ask("First.");
  const own = (await newSession(server)).split("/").at(-1)!;
  await turn(server, `/tare/v1/sessions/${own}`, "Mine.");
  const { sessions, calls, promptTokens, misses } = await get<MissesReport>("/tare/v1/misses");
  assertEquals([sessions, calls, promptTokens], [2, 2, 1_010]);
  assertEquals(misses.map(({ cause, calls, tokens }) => [cause, calls, tokens]), [["first_call", 2, 1_005]]);
  const mine = await get<MissesReport>(`/tare/v1/misses?session=${own}`);
  assertEquals([mine.sessions, mine.misses[0]?.dearest.session], [1, own]);
  assertEquals((await call(server, "GET", "/tare/v1/misses?session=none")).status, 404);
  assertEquals((await call(server, "GET", "/tare/v1/misses?from=yesterday")).status, 400);
});

Deno.test("GET /tare/v1/misses and GET /tare/v1/spend stop when their client disconnects", async () => {
  let evicted = new AbortController();
  const inner = memoryStore();
  const reads: string[] = [];
  const left =
    <Args extends readonly unknown[], Result>(name: string, read: (...args: Args) => Result) =>
    (...args: Args) => {
      reads.push(name);
      evicted.abort();
      return read(...args);
    };
  const store = {
    ...inner,
    readEvents: left("readEvents", inner.readEvents),
    readTotals: left("readSums", inner.readTotals),
  };
  const server = agent(scriptedModel([]), { store });
  for (const path of [await newSession(server), await newSession(server)]) await call(server, "GET", path);
  for (
    const [path, read] of [["/tare/v1/misses", "readEvents"], [
      "/tare/v1/spend?by=session",
      "readSums",
    ]] as const
  ) {
    reads.length = 0;
    evicted = new AbortController();
    await server.fetch(new Request(`http://localhost${path}`), evicted);
    assertEquals(reads, [read]);
  }
});

Deno.test("GET /tare/v1/spend reads the thousand newest sessions one by one, and totals all", async () => {
  const store = memoryStore();
  const settings = { instructions: "", model: "m", tools: [], metadata: {} };
  const make = async (count: number, costUnits: number) => {
    const days = { "2026-01-01 m": { calls: 1, costUnits } };
    const ids = Array.from({ length: count }, () => crypto.randomUUID());
    await store.commit(ids.flatMap((id): StoreRecord[] => [
      { type: "session", kind: "agent", id, createdAtMs: 0, settings },
      { type: "state", sessionId: id, name: "totals", value: { days } },
      ...Accounts.records(id, { group: "planned", agent: "tare", days, isBegun: true }),
    ]));
  };
  const server = agent(scriptedModel([]), { store });
  const dearest = async () => {
    const { body } = await call(server, "GET", "/tare/v1/spend?by=session&limit=1");
    const { all, rows, hasMore } = body as ReturnType<typeof reportSpend>;
    return [all.costUnits, rows.map(({ costUnits }) => costUnits), hasMore];
  };
  await make(1, 9);
  assertEquals(await dearest(), [9, [9], false]);
  await make(999, 1);
  assertEquals(await dearest(), [1_008, [9], true]);
  await make(1, 1);
  assertEquals(await dearest(), [1_009, [1], true]);
});
