import { assertEquals, assertLess, assertLessOrEqual } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { countMessageTokens, countToolTokens, hashText } from "@tare/messages/internal";
import type { GatewayOptions } from "@tare/gateway";
import { estimateTokens, type ToolDefinition } from "@tare/messages";

import { profileNamed } from "@tare/planner";
import { MessageWriter } from "@tare/wire/internal";
import { chatStep, SUMMARIZE } from "./agents_fixture_test.ts";
import { completion, gatewayed, post, READ, UPSTREAM } from "./fixture_test.ts";

const SEARCH: ToolDefinition = {
  type: "function",
  function: { name: "search", description: "Looks for words. ".repeat(500), parameters: {} },
};
const TASK: ToolDefinition = { type: "function", function: { name: "task", parameters: {} } };

Deno.test("cache prediction: a subagent's first prompt shares its parent's tools", async () => {
  const { fetch } = gatewayed(() => completion({ content: "Done." }), {
    upstreams: { chat: { ...UPSTREAM, profile: profileNamed("openai") } },
  });
  const expected = async (model: string, tools: readonly unknown[], system: string) => {
    const messages = [{ role: "system", content: system }, { role: "user", content: `Do ${system}.` }];
    const response = await fetch(post({ model, tools, messages }));
    await response.text();
    return Number(response.headers.get("x-tare-cached-predicted"));
  };
  assertEquals(await expected("m", [SEARCH, TASK, READ], "all"), 0);
  const tokens = countToolTokens(SEARCH, estimateTokens);
  assertEquals(await expected("m", [SEARCH, READ], "a part"), tokens - tokens % 128);
  assertEquals(await expected("n", [SEARCH, READ], "another part"), 0);
});

Deno.test("cache prediction: changed instructions and a first message share their beginning", async () => {
  const { fetch } = gatewayed(() => completion({ content: "Done." }), {
    upstreams: {
      chat: { ...UPSTREAM, profile: { ...profileNamed("openai"), minTokens: 0, blockTokens: 1 } },
    },
  });
  const expected = async (messages: readonly object[]) => {
    const response = await fetch(post({ model: "m", messages }));
    await response.text();
    return Number(response.headers.get("x-tare-cached-predicted"));
  };
  const half = "You help people. ".repeat(200);
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } };
  const ask = (system: string, ...content: readonly object[]) =>
    expected([{ role: "system", content: system }, { role: "user", content }]);
  const text = (words: string) => ({ type: "text", text: words });
  const tokens = estimateTokens(half);
  assertEquals(await ask(`${half}Today is Monday.`, text(half), text("Go.")), 0);
  const shared = [
    await ask(`${half}Today is Friday.`, text(half), text("Go.")),
    await ask(`${half}Today is Monday.`, text(half), text("Stay.")),
    // Blocks after an image are not compared alone.
    await ask(`${half}Today is Monday.`, image, text(half)),
  ];
  const wanted = [tokens, 2 * tokens, tokens];
  for (const [at, share] of shared.entries()) {
    assertLessOrEqual(Math.abs(share - wanted[at]!), 150);
  }
});

Deno.test("cache prediction: a summary request's prompt counts for a session recognized by its end", async () => {
  const { fetch } = gatewayed(() => completion({ content: "Done." }), {
    upstreams: {
      chat: { ...UPSTREAM, profile: { ...profileNamed("openai"), minTokens: 0, blockTokens: 1 } },
    },
  });
  const ask = async (messages: readonly object[]) => {
    const response = await fetch(post({ model: "m", messages, tools: [READ] }));
    await response.text();
    return Number(response.headers.get("x-tare-cached-predicted"));
  };
  const listed = (files: string) => ({
    role: "user" as const,
    content: `In this folder is ${files}. `.repeat(200),
  });
  const step = chatStep("a.ts", "It is short.");
  await ask([listed("nothing"), ...step]);
  await ask([listed("a file"), ...step, { role: "user", content: SUMMARIZE }]);
  const expected = await ask([listed("a file"), { role: "user", content: "Go on." }]);
  assertLess(countMessageTokens(listed("a file"), estimateTokens) - 150, expected);
});

function systemOf(text: string): readonly string[] {
  return ["", " ", "  "].map((end) => text.repeat(40) + end);
}

function marking(options: Partial<GatewayOptions> = {}) {
  const { fetch } = gatewayed(
    ({ body: { model } }, index) => {
      const usage = { promptTokens: 9_000, cachedTokens: 0, cacheWriteTokens: 9_000, hourWriteTokens: 0 };
      const message = { role: "assistant" as const, content: "Yes." };
      return Response.json(
        new MessageWriter({
          id: `msg_${index}`,
          model,
          message,
          finishReason: "stop",
          usage: { ...usage, outputTokens: 5 },
        }).body(),
      );
    },
    { upstreams: { messages: { ...UPSTREAM, profile: profileNamed("anthropic-5m") } }, ...options },
  );
  const tool = {
    name: "search",
    description: "Looks for words. ".repeat(500),
    input_schema: { type: "object" },
  };
  const mark = { cache_control: { type: "ephemeral" } };
  const texts = ["Go on.", "Yes.", "And then?", "Yes.", "And last?"];
  return async (length: number, marked: number, system = systemOf("You help people. ")) => {
    const messages = texts.slice(0, length).map((text, at) => ({
      role: at % 2 === 0 ? "user" : "assistant",
      content: [{ type: "text", text, ...(at === marked && mark) }],
    }));
    const body = {
      model: "m",
      max_tokens: 10,
      tools: [tool],
      // The client sets all four breakpoints, so that none is added.
      system: system.map((text) => ({ type: "text", text, ...mark })),
      messages,
    };
    const response = await fetch(post(body, { "anthropic-version": "2023-06-01" }, "/messages"));
    await response.text();
    return ["x-tare-tokens-sent", "x-tare-cached-predicted"].map((name) =>
      Number(response.headers.get(name))
    );
  };
}

Deno.test("cache prediction: breakpoints limit what is cached", async () => {
  const ask = marking();
  const [first, second] = [await ask(1, 0), await ask(3, 2)];
  const third = await ask(5, 1);
  const other = await ask(5, 4, systemOf("You help others. "));
  assertEquals([first, second, third, other].map(([, expected]) => expected), [0, first![0], first![0], 0]);
});

Deno.test("cache prediction: marked blocks before a changed block of the system prompt count", async () => {
  const ask = marking();
  const system = systemOf("You help people. ");
  const [sent = 0] = await ask(1, 0, system);
  const [, expected = 0] = await ask(1, 0, system.with(2, "You help others. ".repeat(40)));
  const rest = countMessageTokens({ role: "system", content: system[2]! }, estimateTokens) +
    countMessageTokens({ role: "user", content: "Go on." }, estimateTokens);
  assertLessOrEqual(Math.abs(sent - rest - expected), 5);
});

Deno.test("breakpoints: their position in the system prompt doesn't change the messages", async () => {
  const sent = async (breakpointsOf: (request: number) => readonly boolean[]) => {
    const { fetch, seen } = gatewayed(() => new Response("{}", { status: 503 }), {
      upstreams: { messages: { ...UPSTREAM, windowTokens: 20_000, profile: profileNamed("anthropic-5m") } },
    });
    const messages: object[] = [{ role: "user", content: [{ type: "text", text: "Go." }] }];
    for (let at = 0; at < 10; at++) {
      messages.push(
        { role: "assistant", content: [{ type: "tool_use", id: `t${at}`, name: "read", input: { at } }] },
        {
          role: "user",
          content: [{
            type: "tool_result",
            tool_use_id: `t${at}`,
            content: `word${at} and more of it. `.repeat(800),
          }],
        },
      );
      const system = breakpointsOf(at).map((isMarked, at) => ({
        ...{ type: "text", text: `Rule ${at}.` },
        ...(isMarked && { cache_control: { type: "ephemeral" } }),
      }));
      const tools = [{ name: "read", input_schema: { type: "object" } }];
      const body = { model: "m", max_tokens: 10, tools, system, messages };
      await (await fetch(post(body, { "anthropic-version": "2023-06-01" }, "/messages"))).text();
    }
    const unmarked = (name: string, value: unknown) => name === "cache_control" ? undefined : value;
    return seen.map(({ body }) => hashText(JSON.stringify(body.messages, unmarked)));
  };
  const still = await sent(() => [false, true]);
  const moving = await sent((request) =>
    [[true, true], [false, true], [true, false], [false, false]][request % 4]!
  );
  assertEquals(moving, still);
});

Deno.test("cache prediction: breakpoints survive a restart", async () => {
  const store = memoryStore();
  const whole = marking();
  const expected = [await whole(3, 2), await whole(5, 4), await whole(5, 1)];
  const found = [
    await marking({ store })(3, 2),
    await marking({ store })(5, 4),
    await marking({ store })(5, 1),
  ];
  assertEquals(found, expected);
});

Deno.test("cache prediction: the cost of a resumed conversation with changed instructions survives a restart", async () => {
  const profile = { ...profileNamed("openai"), minTokens: 0, blockTokens: 1 };
  const half = "You help people. ".repeat(2_000);
  const played = async (isRestarted: boolean) => {
    const store = memoryStore();
    const open = () =>
      gatewayed(() => completion({ content: "Done." }, 9_000), {
        ...{ store, upstreams: { chat: { ...UPSTREAM, profile } } },
      });
    let opened = open();
    const expected: number[] = [];
    const history: object[] = [{ role: "user", content: "Find the constants of the folder." }];
    for (const day of ["Monday", "Monday", "Friday", "Friday"]) {
      if (isRestarted) {
        await opened.close();
        opened = open();
      }
      const messages = [{ role: "system", content: `${half}Today is ${day}.` }, ...history];
      const response = await opened.fetch(post({ model: "m", messages, tools: [READ] }));
      await response.text();
      expected.push(Number(response.headers.get("x-tare-cached-predicted")));
      history.push(...chatStep(`${history.length}.ts`, `It is short. ${history.length}`));
    }
    const { costUnits, baselineCostUnits } = (await opened.ledger()).planned;
    await opened.close();
    return { expected, costUnits, baselineCostUnits };
  };
  const whole = await played(false);
  assertLess(0, whole.expected[2]!);
  assertEquals(await played(true), whole);
});
