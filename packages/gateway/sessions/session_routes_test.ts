import { assert, assertAlmostEquals, assertEquals, assertStringIncludes } from "@std/assert";
import { schemaChecker } from "@tare/messages/arguments";
import {
  BLOCK_REPORT,
  CALL_LIST,
  type CallReport,
  OVERVIEW,
  PIN_LIST,
  PIN_REPORT,
  PROMPT_REPORT,
  type PromptBlock,
} from "@tare/conversation/report";
import { BASH, chatStep, longResult, SUM_UP } from "../agents_fixture_test.ts";
import { completion, gatewayed, post } from "../fixture_test.ts";
import type { GatewayOptions } from "../options.ts";

/** A gateway whose client goes on with one conversation, a call of a tool for each step. */
function conversation(options: Partial<GatewayOptions> = {}) {
  const bodies: string[] = [];
  const { fetch } = gatewayed(({ text }) => {
    bodies.push(text);
    return completion({ content: "Hi" }, text.length / 4);
  }, { now: () => Date.UTC(2026, 0, 1), ...options });
  const messages: object[] = [{ role: "user", content: "Find the constants.\nAll four." }];
  let id = "";
  const ask = async (more: object = {}) => {
    const response = await fetch(post({ model: "m", messages, tools: [BASH], ...more }));
    id = response.headers.get("x-tare-session") ?? id;
    await response.text();
  };
  const call = async (method: string, path: string, body?: unknown) => {
    const response = await fetch(
      new Request(`http://localhost/v1/gateway${path.replace("{id}", id)}`, {
        method,
        ...(body !== undefined && {
          headers: { "content-type": "application/json" },
          body: typeof body === "string" ? body : JSON.stringify(body),
        }),
      }),
    );
    const text = await response.text();
    return { status: response.status, body: text === "" ? undefined : JSON.parse(text) };
  };
  return {
    bodies,
    ask,
    call,
    messages,
    async step(name: string) {
      messages.push(...chatStep(name, longResult(name)));
      await ask();
    },
  };
}

Deno.test("gateway shows what a session's model sees, and brings back what is kept at the next rewrite", async () => {
  const { step, call, bodies } = conversation();
  for (let at = 0; at < 6; at++) await step(`file${at}`);
  const { body: prompt } = await call("GET", "/sessions/{id}/prompt");
  assertEquals(schemaChecker(PROMPT_REPORT)(prompt), undefined);
  const elided: PromptBlock = prompt.blocks.find(({ state }: PromptBlock) => state === "elided");
  assert(prompt.tokens < prompt.originalTokens && elided.tokens < elided.originalTokens);
  const { body: block } = await call("GET", `/sessions/{id}/prompt/${elided.id}`);
  assertEquals(schemaChecker(BLOCK_REPORT)(block), undefined);
  assertStringIncludes(block.now.text, "[elided: ");
  assertEquals(block.original.text, longResult("file0"));
  assertEquals((await call("GET", "/sessions/{id}/prompt/line-9")).status, 404);

  const { place } = elided;
  const pin = { place, wish: "keep", by: "user" };
  const { body: set } = await call("POST", "/sessions/{id}/pins", { place, wish: "keep" });
  assertEquals([schemaChecker(PIN_REPORT)(set), set], [undefined, { ...pin, state: "waiting" }]);
  assert(!bodies.at(-1)!.includes(JSON.stringify(longResult("file0")).slice(1, -1)));
  for (let at = 6; at < 9; at++) await step(`file${at}`);
  const { body: pins } = await call("GET", "/sessions/{id}/pins");
  assertEquals([schemaChecker(PIN_LIST)(pins), pins], [undefined, { pins: [{ ...pin, state: "done" }] }]);
  assert(bodies.at(-1)!.includes(JSON.stringify(longResult("file0")).slice(1, -1)));

  const { body: { calls } } = await call("GET", "/sessions/{id}/calls");
  assertEquals(schemaChecker(CALL_LIST)({ calls, hasMore: false }), undefined);
  assertEquals(
    calls.flatMap(({ rewrites }: CallReport) => rewrites.flatMap(({ asked = [] }) => asked)),
    [pin],
  );
  assertEquals((await call("DELETE", `/sessions/{id}/pins/${place}`)).status, 204);
  assertEquals((await call("DELETE", `/sessions/{id}/pins/${place}`)).status, 404);
});

Deno.test("gateway gives sums of calls that are the ledger's", async () => {
  const { step, ask, call, messages } = conversation({ control: 0 });
  for (let at = 0; at < 4; at++) await step(`file${at}`);
  await ask({ messages: [...messages, { role: "user", content: SUM_UP }] });
  const { body: session } = await call("GET", "/sessions/{id}");
  const { body: { calls } } = await call("GET", "/sessions/{id}/calls");
  const { body: overview } = await call("GET", "/overview");
  assertEquals(schemaChecker(OVERVIEW)(overview), undefined);
  for (const name of ["promptTokens", "cachedTokens", "outputTokens", "tokenUnits"] as const) {
    const sum = calls.reduce((all: number, one: CallReport) => all + one[name], 0);
    for (const told of [session, overview.all, overview.today, overview.groups.planned]) {
      assertAlmostEquals(told[name], sum);
    }
  }
  assertEquals(calls.map(({ purpose }: CallReport) => purpose), [...Array(4).fill("turn"), "compaction"]);
  const { planned, control } = overview.groups;
  assertEquals([planned.sessions, planned.calls, control.sessions, control.calls], [1, 5, 0, 0]);
  assertEquals([session.title, overview.all.calls], ["Find the constants. All four.", 5]);
  const found = async (search: string) =>
    (await call("GET", `/sessions?search=${encodeURIComponent(search)}`)).body.sessions.length;
  assertEquals([await found("CONSTANTS"), await found("variables")], [1, 0]);
});

Deno.test("gateway refuses what can't be asked for, and says why", async () => {
  const { step, call } = conversation();
  await step("file0");
  const pins = "/sessions/{id}/pins";
  for (
    const [body, status, said] of [
      [{ place: 0, wish: "let_go" }, 400, "Cannot let go of message 0: it is the user's"],
      [{ place: 99, wish: "keep" }, 400, "Cannot keep message 99: the session has 3, numbered from 0."],
      [{ place: 0 }, 400, "wish"],
      ["{", 400, "it is no JSON"],
      [{ place: 0, wish: "keep", by: "x".repeat(20_000) }, 413, "more than 10000 bytes"],
    ] as const
  ) {
    const { status: told, body: { error } } = await call("POST", pins, body);
    assertEquals(told, status);
    assertStringIncludes(error.message, said);
  }
  assertEquals((await call("POST", pins)).status, 415);
  for (const path of ["/sessions/nobody/prompt", "/sessions/{id}/other", "/sessions/{id}/pins/1/2"]) {
    assertEquals((await call("GET", path)).status, 404);
  }
  assertEquals((await call("GET", "/sessions/{id}/calls?limit=0")).status, 400);
  const control = conversation({ control: 1 });
  await control.step("file0");
  const { status, body } = await control.call("POST", pins, { place: 2, wish: "keep" });
  assertEquals([status, body.error.message], [
    501,
    "Cannot pin message 2: nothing leaves this session's prompt, which is sent as it is.",
  ]);
});
