import { assertEquals, assertMatch } from "@std/assert";
import type { GatewayOptions } from "@tare/gateway";
import { call, completion, type Forwarded, gatewayed, post, READ, UPSTREAM } from "./fixture_test.ts";

const SMALL = { upstreams: { chat: { ...UPSTREAM, windowTokens: 11_000 } } };

const text = (tokens: number, name: string) => `${name} `.repeat(tokens * 4 / (name.length + 1));

function turn(id: string, tokens: number, answer?: string): object[] {
  return [
    { role: "user", content: `Read ${id}.` },
    { role: "assistant", content: null, tool_calls: [call("read", { path: id }, id)] },
    { role: "tool", tool_call_id: id, content: text(tokens, id) },
    ...(answer === undefined ? [] : [{ role: "assistant", content: answer }]),
  ];
}

async function sentFor(histories: readonly (readonly object[])[], options: Partial<GatewayOptions>) {
  const { fetch, seen } = gatewayed(() => completion({ content: "ok" }, 0), options);
  const answers: Response[] = [];
  for (const messages of histories) {
    const response = await fetch(post({ model: "m", tools: [READ], messages }));
    await response.body?.cancel();
    answers.push(response);
  }
  return { seen, answers };
}

const contents = ({ body }: Forwarded): string[] =>
  body.messages.map(({ content }: { content: unknown }) => String(content).slice(0, 8));

Deno.test("policy classic: gateway prunes by triggers, permanently and without costs", async () => {
  const history = [...turn("a", 3_000, "ok"), ...turn("b", 3_000, "ok")];
  const go = { role: "user", content: "Go on." };
  const more = { role: "assistant", content: text(3_000, "said") };
  const histories = [[...history, go], [...history, go, more, go], [...history, go, more, go, more, go]];
  const { seen, answers } = await sentFor(histories, {
    ...SMALL,
    planning: {
      policy: "classic",
      triggers: { protectTokens: 3_500 },
      mechanisms: { context: false },
    },
  });
  const [first, second, third] = seen.map(contents);
  assertEquals(
    first,
    [...history, go].map((message) => String((message as { content: unknown }).content).slice(0, 8)),
  );
  assertEquals(second?.filter((content) => content === "[elided:").length, 2);
  assertEquals(third?.slice(0, second?.length), second);
  assertMatch(
    seen[1]?.body.messages[2].content,
    /^\[elided: read result, \d+ bytes; recall with ref \w{16}\]$/,
  );
  assertEquals(answers.map(({ headers }) => headers.get("x-tare-epoch")), ["0", "1", "1"]);
  assertEquals(answers.map(({ headers }) => headers.get("x-tare-saved-cost-units")), [null, null, null]);
  const planned = await sentFor(histories.slice(0, 1), SMALL);
  assertEquals(planned.answers[0]?.headers.get("x-tare-saved-cost-units"), "0");
});

Deno.test("policy classic: gateway evicts old turns of a tool loop, and the model recalls them", async () => {
  const old = turn("a", 3_000, "The name is Ada.");
  const active = turn("b", 10);
  const { fetch, seen } = gatewayed(({ body }, index) => {
    if (index > 0) return completion({ content: String(body.messages.at(-1).content) });
    const [, ref] =
      /\[elided: 4 messages, \d+ bytes; recall with ref (\w{16})\]/.exec(JSON.stringify(body)) ?? [];
    return completion({ tool_calls: [call("recall", { ref, find: "name is" }, "r")] });
  }, { planning: { policy: "classic", triggers: { historyBudgetTokens: 100 } } });
  const response = await fetch(post({ model: "m", tools: [READ], messages: [...old, ...active] }));
  const { choices: [{ message }] } = await response.json();
  assertEquals(message.content.includes("The name is Ada."), true);
  assertEquals(seen.map(({ body }) => body.messages.map(({ role }: { role: string }) => role)), [
    ["user", "user", "assistant", "tool"],
    ["user", "user", "assistant", "tool", "assistant", "tool"],
  ]);
});

Deno.test("truncation: both policies truncate a large result at ingestion, permanently", async () => {
  for (const policy of ["planner", "classic"] as const) {
    const messages = turn("big", 40_000);
    const later = [...messages, { role: "assistant", content: "ok" }, { role: "user", content: "And?" }];
    const { seen } = await sentFor([messages, later], {
      planning: { policy, mechanisms: { prune: false, context: false } },
    });
    const [first, second] = seen.map(({ body }) => body.messages[2].content);
    assertMatch(
      first,
      /^big [^]+\n\[elided: middle of read result, \d+ bytes; recall with ref \w{16}\]\n[^]+big $/,
    );
    assertEquals([first.length < 65_000, second], [true, first]);
    const limited = await sentFor([messages], { planning: { policy, truncateTokens: 1_000 } });
    assertEquals(limited.seen[0]?.body.messages[2].content.length < 4_200, true);
  }
});

Deno.test("truncation: results are not truncated without recall, or if disabled", async () => {
  const messages = turn("big", 40_000);
  for (const options of [{ recall: false }, { planning: { mechanisms: { truncate: false } } }] as const) {
    const { seen } = await sentFor([messages], options);
    assertEquals(seen[0]?.body.messages, messages);
  }
});

Deno.test("policy classic: a fork contains pruned results", async () => {
  const history = [...turn("a", 3_000, "ok"), ...turn("b", 3_000, "ok"), ...turn("c", 3_000, "ok")];
  const ask = (content: string) => [...history, { role: "user", content }];
  const { seen } = await sentFor([ask("one"), ask("other"), history.slice(0, 5)], {
    ...SMALL,
    planning: {
      policy: "classic",
      triggers: { protectTokens: 3_500 },
      mechanisms: { context: false },
    },
  });
  const [one, other, back] = seen.map(contents);
  assertEquals(one?.filter((content) => content === "[elided:").length, 2);
  assertEquals(other, one?.toSpliced(-1, 1, "other"));
  assertEquals(back, one?.slice(0, 5));
});
