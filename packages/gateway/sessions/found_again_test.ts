import { assert, assertEquals, assertLess, assertNotEquals, assertStringIncludes } from "@std/assert";
import { gateway, type GatewayOptions } from "@tare/gateway";
import { profileNamed } from "@tare/planner";
import type { Store } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { openStore } from "@tare/session/sqlite";
import { longResult } from "../agents_fixture_test.ts";
import { completion, gatewayed, OPTIONS, post, READ, UPSTREAM } from "../fixture_test.ts";
import { functionCall, responsesUpstream, textItems } from "../responses_fixture_test.ts";
import { conversation, MANNERS, play } from "./conversations_fixture_test.ts";
import { CHAT, DIALECTS } from "./dialects_fixture_test.ts";

for (const dialect of DIALECTS) {
  Deno.test(`restart: a conversation whose first message ended in transient text is recognized: ${dialect.name}`, async () => {
    const options = { store: memoryStore(), upstreams: { [dialect.name]: UPSTREAM } };
    for (const task of ["Find the constants in all files of the folder.", "Go."]) {
      const ids: unknown[] = [];
      const opening = (at: number) => dialect.opening(`${task}\n\nIt is second number ${at} of the hour.`);
      for (const history of [opening(1), [...dialect.opening(task), ...dialect.step("a.ts", "A.")]]) {
        const { fetch } = gatewayed(
          ({ body }) => dialect.answer(body, { text: "Yes.", id: "m1" }, 0),
          options,
        );
        const response = await fetch(
          post(dialect.body(history, { rules: "Rules.", tools: true }), {}, dialect.path),
        );
        assert(response.ok, await response.text());
        ids.push(response.headers.get("x-tare-session"));
      }
      assertEquals(ids[1], ids[0], task);
    }
  });
}

Deno.test("restart: a fork whose client cleared old results is recognized, and not its parent", async () => {
  const store = memoryStore();
  const session = async (...messages: readonly object[]) => {
    const { fetch } = gatewayed(() => completion({ content: "Yes." }), { store });
    const response = await fetch(post({ model: "m", messages, tools: [READ] }));
    assert(response.ok, await response.text());
    return response.headers.get("x-tare-session");
  };
  const [task, next] = [{ role: "user", content: "Go." }, { role: "user", content: "Go on." }];
  const steps = (results: readonly string[]) =>
    results.flatMap((result, at) => CHAT.step(`${at}.ts`, result));
  const first = await session(task);
  assertEquals(await session(task, ...steps(["A.", "B.", "C.", "D."])), first);
  const branch = await session(task, ...steps(["A.", "B.", "C."]), next);
  assertNotEquals(branch, first);
  await session(task);
  const more = CHAT.step("more.ts", "E.");
  assertEquals(await session(task, ...steps(["-", "-", "C."]), next, ...more), branch);
});

Deno.test("restart: a response that is continued is known, with its open recalls and upstream id", async () => {
  const tools = [{ type: "function", name: "read", parameters: { type: "object", properties: {} } }];
  const upstream = responsesUpstream([
    [functionCall("recall", { ref: "none" }, "r1")],
    [functionCall("recall", { ref: "none" }, "r2"), functionCall("read", {}, "c1")],
    [textItems("Done.")],
  ]);
  const paths: string[] = [];
  const fetch = (async (...args: Parameters<typeof globalThis.fetch>) => {
    const request = new Request(...args);
    paths.push(`${request.method} ${new URL(request.url).pathname}`);
    return request.method === "GET" ? Response.json({}) : await upstream.fetch(request);
  }) as typeof globalThis.fetch;
  const store = memoryStore();
  const ask = async (request: Request) =>
    await (await gateway({ ...OPTIONS, fetch, store }).fetch(request))!.text();
  const input = [{ role: "user", content: "Go." }];
  await ask(post({ model: "m", input, tools, stream: true }, {}, "/responses"));
  await ask(new Request("http://localhost/v1/responses/resp_1"));
  const output = { type: "function_call_output", call_id: "c1", output: "A." };
  const next = { model: "m", input: [output], tools, previous_response_id: "resp_1" };
  await ask(post(next, {}, "/responses"));
  const { input: given, previous_response_id } = upstream.requests[2]!;
  assertEquals([previous_response_id, given.map(({ call_id }) => call_id)], ["resp_2", ["r2", "c1"]]);
  assertEquals(paths[2], "GET /v1/responses/resp_2");
});

const requests = conversation(CHAT, MANNERS[0]!).slice(0, 10);

Deno.test("store: a conversation belongs to its client only", async () => {
  const store = memoryStore();
  const session = async (key: string) => {
    const { fetch } = gatewayed(() => completion({ content: "Yes." }), { store });
    const response = await fetch(post(requests[4]!.body, { authorization: `Bearer ${key}` }));
    await response.text();
    return response.headers.get("x-tare-session");
  };
  const [mine, yours, ...again] = [
    await session("a"),
    await session("b"),
    await session("a"),
    await session("b"),
  ];
  assertNotEquals(mine, yours);
  assertEquals(again, [mine, yours]);
});

Deno.test("store: no keys and no text except evicted content and titles are stored", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const path = `${folder}/tare.db`;
    const store = await openStore(path);
    const headers = { authorization: "Bearer sk-very-secret" };
    const all = requests.map((one) => ({ ...one, headers }));
    await play(all, CHAT, (_, options) => gateway({ ...options, store }));
    await store.close();
    assertEquals(Deno.statSync(path).mode! & 0o777, 0o600);
    const text = new TextDecoder("latin1").decode(Deno.readFileSync(path));
    assertStringIncludes(text, "Find the constants in all files of the folder.");
    for (const content of ["sk-very-secret", "Now sum them up.", "keep what people said", "Done with"]) {
      assertEquals(text.includes(content), false, content);
    }
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("store: interrupted and refused requests are stored as in memory", async () => {
  const results = Array.from({ length: 6 }, (_, at) => CHAT.step(`f${at}.ts`, longResult(`f${at}.ts`)));
  const history = (steps: number) => [{ role: "user", content: "Go." }, ...results.slice(0, steps).flat()];
  const play = async (anew: boolean) => {
    const store = memoryStore();
    let nowMs = 0;
    const upstream = {
      baseURL: "http://u.example/v1",
      profile: profileNamed("openai"),
      windowTokens: 100_000,
    };
    const options: Partial<GatewayOptions> = {
      upstreams: { chat: upstream },
      now: () => nowMs,
      store,
    };
    const replies = [
      () => completion({ content: "One." }),
      () => Response.json({ error: { message: "Try again." } }, { status: 529 }),
      () =>
        new Response(
          new ReadableStream({ pull: (to) => to.enqueue(new TextEncoder().encode("data: {}\n\n")) }),
          {
            headers: { "content-type": "text/event-stream" },
          },
        ),
    ];
    const sent: string[] = [];
    let open: ReturnType<typeof gatewayed> | undefined;
    for (const [at, steps] of [2, 4, 5, 6, 6].entries()) {
      nowMs += 10_000;
      if (anew) open = undefined;
      open ??= gatewayed((request) => {
        sent.push(request.text);
        return (replies[at] ?? replies[0])!();
      }, options);
      const body = { model: "m", messages: history(steps), tools: [READ], stream: at === 2 };
      const response = await open.fetch(post(body));
      if (at === 2) {
        const reader = response.body!.getReader();
        await reader.read();
        await reader.cancel();
      } else await response.text();
      // Writes that no answer waits for complete meanwhile.
      await new Promise((resolve) => setTimeout(resolve));
    }
    return sent;
  };
  const expected = await play(false);
  assertStringIncludes(expected.at(-1)!, "[elided: ");
  assertEquals(await play(true), expected);
});

Deno.test("store: pins are stored", async () => {
  const store = memoryStore();
  const answer = () => completion({ content: "Yes." });
  const messages = [{ role: "user", content: "Go." }, ...CHAT.step("a.ts", longResult("a.ts"))];
  const first = gatewayed(answer, { store });
  const id = (await first.fetch(post({ model: "m", messages, tools: [READ] }))).headers.get("x-tare-session");
  await (await first.sessions.open(id ?? ""))?.setPin({ place: 2, wish: "retain" });
  const later = gatewayed(answer, { store });
  await (await later.fetch(post({ model: "m", messages, tools: [READ] }))).text();
  const pins = (await (await later.sessions.open(id ?? ""))?.seen())?.pins ?? [];
  assertEquals(pins.map(({ place, wish }) => [place, wish]), [[2, "retain"]]);
});

Deno.test("store: a turn's writes grow little with its conversation", async () => {
  const inner = memoryStore();
  let written = 0;
  const store: Store = {
    ...inner,
    commit(records) {
      written += JSON.stringify(records).length;
      return inner.commit(records);
    },
  };
  const history: object[] = [{ role: "user", content: "Read all of them." }];
  const upstream = { baseURL: "http://u.example/v1", profile: profileNamed("none"), windowTokens: 400_000 };
  const { fetch } = gatewayed(() => completion({ content: "Yes." }), {
    upstreams: { chat: upstream },
    store,
  });
  const writtenFor: number[] = [];
  for (let at = 0; at < 300; at++) {
    history.push(...CHAT.step(`${at}.ts`, longResult(String(at)).slice(0, 1_000)));
    written = 0;
    await (await fetch(post({ model: "m", messages: history, tools: [READ] }))).text();
    writtenFor.push(written);
  }
  const average = (from: number) =>
    writtenFor.slice(from, from + 100).reduce((sum, one) => sum + one, 0) / 100;
  assertLess(average(200), 60_000);
  assertLess(average(200), 3 * average(50));
  assert(JSON.stringify(history).length > 8 * average(200));
});
