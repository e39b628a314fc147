import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { SESSION_DETAILS, SESSION_LIST } from "@tare/gateway";
import { profileNamed } from "@tare/planner";
import { schemaChecker } from "@tare/messages/arguments";
import { BASH, chatStep, longResult, SUM_UP } from "../agents_fixture_test.ts";
import { completion, gatewayed, post, UPSTREAM } from "../fixture_test.ts";

Deno.test("gateway lists its sessions, the newest first, page by page", async () => {
  let nowMs = Date.UTC(2026, 0, 1);
  const { fetch } = gatewayed(() => completion({ content: "Hi" }), { now: () => nowMs });
  const ids: string[] = [];
  for (const content of ["one", "two", "three"]) {
    const response = await fetch(post({ model: "m", messages: [{ role: "user", content }] }));
    await response.text();
    ids.unshift(response.headers.get("x-tare-session") ?? "");
    nowMs += 60_000;
  }
  const list = async (query = "") => {
    const response = await fetch(new Request(`http://localhost/v1/gateway/sessions${query}`));
    return { status: response.status, body: await response.json() };
  };
  const { body } = await list();
  assertEquals(schemaChecker(SESSION_LIST)(body), undefined);
  assertEquals([body.sessions.map(({ id }: { readonly id: string }) => id), body.hasMore], [ids, false]);
  assertEquals(body.sessions[2], {
    ...{ id: ids[2], title: "one", protocol: "chat", model: "m" },
    ...{ startedAt: "2026-01-01T00:00:00.000Z", lastAt: "2026-01-01T00:00:00.000Z" },
    ...{ control: false, reverted: false, epoch: 0, calls: 1, errors: 0, recalls: 0, compactions: 0 },
    ...{ promptTokens: 1000, cachedTokens: 0, outputTokens: 5, savedTokens: 0 },
    ...{ tokenUnits: 1000, resendTokenUnits: 1000, compactionTokenUnits: 0 },
    ...{ usd: 0, resendUsd: 0, compactionUsd: 0, unpricedCalls: 1, savedTokenUnits: 0 },
  });
  const first = (await list("?limit=2")).body;
  assertEquals([first.sessions.length, first.hasMore], [2, true]);
  const second = (await list(`?limit=2&after=${ids[1]}`)).body;
  assertEquals([second.sessions[0].id, second.sessions.length, second.hasMore], [ids[2], 1, false]);
  for (
    const [query, status, said] of [
      ["?limit=0", 400, 'limit is "0", but it must be a whole number from 1 to 1000'],
      ["?limit=1001", 400, 'limit is "1001"'],
      ["?limit=ten", 400, 'limit is "ten"'],
      ["?after=nobody", 404, 'Cannot find the session "nobody"'],
      ["/nobody", 404, 'Cannot find the session "nobody"'],
      ["/%E0", 404, "Cannot find the session"],
    ] as const
  ) {
    const refused = await list(query);
    assertEquals(refused.status, status);
    assertStringIncludes(refused.body.error.message, said);
  }
});

Deno.test("gateway tells of a session what it cost, what left its prompt and why, and its compactions", async () => {
  let nowMs = Date.UTC(2026, 0, 1);
  const { fetch } = gatewayed(({ text }) => completion({ content: "Hi" }, text.length / 4), {
    now: () => nowMs += 1_000,
  });
  const messages: object[] = [{ role: "user", content: "Find the constants." }];
  let id: string | null = null;
  const ask = async (more: object) => {
    const response = await fetch(post({ model: "m", messages, tools: [BASH], ...more }));
    id = response.headers.get("x-tare-session");
    await response.text();
  };
  for (let at = 0; at < 8; at++) {
    messages.push(...chatStep(`file${at}`, longResult(`file${at}`)));
    await ask({});
  }
  await ask({ messages: [...messages, { role: "user", content: SUM_UP }] });
  const response = await fetch(new Request(`http://localhost/v1/gateway/sessions/${id}`));
  const session = await response.json();
  assertEquals(schemaChecker(SESSION_DETAILS)(session), undefined);
  assertEquals([session.id, session.calls, session.compactions], [id, 9, 1]);
  assert(session.epoch > 0 && session.rewrites.length >= session.epoch);
  assert(session.prompt.tokens > 0 && session.prompt.left.prune > 0 && session.archiveBytes > 10_000);
  const { at, reason, removed, tokensBefore, tokensAfter } = session.rewrites.at(-1);
  assert(at.startsWith("2026-01-01T") && tokensBefore > tokensAfter);
  assertStringIncludes(removed, "old result");
  assertStringIncludes(reason, "tokens leave");
  const [{ at: when, promptTokens, tokenUnits }] = session.compactionCalls;
  assert(when > at && promptTokens > 0 && session.promptTokens > promptTokens);
  assertEquals([session.compactionCalls.length, session.compactionTokenUnits], [1, tokenUnits]);
});

Deno.test("gateway reckons with the cache rules and prices of the model that is asked for", async () => {
  const profile = (model: string) => profileNamed(model === "a" ? "openai" : "deepseek");
  const usage = { prompt_tokens: 1000, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 500 } };
  const { fetch } = gatewayed(() => Response.json({ choices: [], usage }), {
    upstreams: { chat: { ...UPSTREAM, profile } },
  });
  for (const model of ["a", "b"]) {
    await (await fetch(post({ model, messages: [{ role: "user", content: `I am ${model}.` }] }))).text();
  }
  const { sessions } = await (await fetch(new Request("http://localhost/v1/gateway/sessions"))).json();
  const costs = sessions.map((
    { model, tokenUnits }: { readonly model: string; readonly tokenUnits: number },
  ) => [model, tokenUnits]);
  assertEquals(costs, [["b", 500 + 500 * profileNamed("deepseek").read], ["a", 550]]);
});
