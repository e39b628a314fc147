import {
  assert,
  assertEquals,
  assertGreater,
  assertLess,
  assertLessOrEqual,
  assertMatch,
  assertRejects,
  assertStrictEquals,
} from "@std/assert";
import { type AssistantMessage, contentText, estimateTokens, type Message } from "@tare/messages";
import {
  plannerSession,
  profileNamed,
  type PromptSessionOptions,
  PromptTooLong,
  type SessionView,
} from "@tare/planner";
import { PrefixCache, promptCost } from "@tare/planner/internal/parts";
import { memoryArchive, RECALL_TOOL } from "@tare/prune";

const tools = [RECALL_TOOL];
const WINDOW = 20_000;

function session(options: Partial<PromptSessionOptions> = {}) {
  return plannerSession({
    profile: profileNamed("deepseek"),
    archive: memoryArchive(),
    countTokens: estimateTokens,
    windowTokens: WINDOW,
    ...options,
  });
}

function step(number: number, chars: number, unit = `line ${number} of the file, `): Message[] {
  const id = `c${number}`;
  return [
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id, type: "function", function: { name: "read", arguments: `{"path":"f${number}"}` } }],
    },
    { role: "tool", tool_call_id: id, content: unit.repeat(Math.ceil(chars / unit.length)).slice(0, chars) },
  ];
}

/** Returns the provider's count: one token per Chinese character, a quarter for others. */
function counted({ messages }: Pick<SessionView, "messages">): number {
  const text = JSON.stringify(messages);
  const han = text.match(/[\u4e00-\u9fff]/g)?.length ?? 0;
  return Math.ceil((text.length - han) / 4 + han);
}

Deno.test("view() stays within the window with Chinese text, which the counter underestimates", async () => {
  const planned = session();
  const messages: Message[] = [{ role: "user", content: "Read on." }];
  const sizes: number[] = [];
  for (let call = 0; call < 40; call++) {
    messages.push(...step(call, 1_500, call < 15 ? undefined : "读取每一行并返回找到的内容"));
    const view = await planned.view({ messages: [...messages], tools }, { nowMs: call * 1_000 });
    sizes.push(counted(view));
    planned.sent({ promptTokens: counted(view), cachedTokens: 0, outputTokens: 1 }, view);
  }
  assertLessOrEqual(Math.max(...sizes), WINDOW);
  assertGreater(Math.max(...sizes), WINDOW / 2);
});

Deno.test("rejected() learns a window, makes the next view fit it, and survives a restart", async () => {
  const archive = memoryArchive();
  const messages: Message[] = [
    { role: "user", content: "Read on." },
    ...[...Array(12).keys()].flatMap((at) => step(at, 6_000)),
  ];
  const view = (planned: ReturnType<typeof session>, model = "m") =>
    planned.view({ messages, tools }, { nowMs: 0, model });
  const planned = session({ archive });
  const before = await view(planned);
  assertGreater(before.promptTokens, 10_000);
  planned.rejected(10_000, { promptTokens: before.promptTokens, view: before });
  const after = await view(planned);
  assertLessOrEqual(after.promptTokens, 10_000);
  const restored = session({ archive, state: JSON.parse(JSON.stringify(planned.state)) });
  assertEquals((await view(restored)).messages, after.messages);
  const other = session({ archive, state: { ...JSON.parse(JSON.stringify(planned.state)), edits: [] } });
  assertEquals((await view(other, "another")).messages.length, before.messages.length);
});

Deno.test("rejected() without a number makes the next view shorter, also after a lower count", async () => {
  const messages: Message[] = [
    { role: "user", content: "Read on." },
    ...[...Array(8).keys()].flatMap((at) => step(at, 6_000)),
  ];
  for (const limit of [undefined, 19_000]) {
    const planned = session(limit === undefined ? {} : { windowTokens: limit });
    const before = await planned.view({ messages, tools }, { nowMs: 0 });
    planned.rejected(limit);
    const after = await planned.view({ messages, tools }, { nowMs: 0 });
    assertLessOrEqual(after.promptTokens, 0.8 * before.promptTokens);
  }
});

Deno.test("view() throws if user messages exceed the window, and suggests a remedy", async () => {
  const words = "so many words ".repeat(30_000);
  const messages: Message[] = [{ role: "user", content: "Go." }, { role: "assistant", content: "Yes?" }, {
    role: "user",
    content: words,
  }];
  const error = await assertRejects(
    () => session().view({ messages, tools }, { nowMs: 0 }),
    PromptTooLong,
    "use a model with a larger window",
  );
  assertEquals([error.longest.place, error.windowTokens], [2, WINDOW]);
  assert(error.message.includes("Message 2 (user)"), error.message);
  // With an assumed window the provider decides.
  const assuming = session({ advanced: { assumesWindow: true } });
  const view = await assuming.view({ messages, tools }, { nowMs: 0 });
  assertEquals(view.messages, messages);
  assuming.rejected(WINDOW, { promptTokens: 105_000 });
  await assertRejects(() => assuming.view({ messages, tools }, { nowMs: 0 }), PromptTooLong);
});

Deno.test("view() sends a possibly fitting prompt until a refusal, and then only likely fitting ones", async () => {
  const input = (tokens: number): Message[] => [{ role: "user", content: "word ".repeat(0.8 * tokens) }];
  const planned = session();
  // By the coarsest tokenizer it fits.
  const [long, short] = [input(1.5 * WINDOW), input(0.8 * WINDOW)];
  const first = await planned.view({ messages: long, tools }, { nowMs: 0 });
  assertEquals(first.messages, long);
  assertEquals((await session().view({ messages: short, tools }, { nowMs: 0 })).messages, short);
  // The provider's count is unknown still, but it exceeds this.
  planned.rejected(WINDOW);
  for (const messages of [long, short]) {
    await assertRejects(() => planned.view({ messages, tools }, { nowMs: 0 }), PromptTooLong);
  }
  const shorter = input(0.3 * WINDOW);
  assertEquals((await planned.view({ messages: shorter, tools }, { nowMs: 0 })).messages, shorter);
});

Deno.test("rejected() learns the provider's count from a refusal", async () => {
  const messages: Message[] = [
    { role: "user", content: "Read on." },
    ...[...Array(12).keys()].flatMap((at) => step(at, 6_000)),
  ];
  const planned = session();
  const before = await planned.view({ messages, tools }, { nowMs: 0 });
  const ours = counted(before);
  planned.rejected(10_000, { promptTokens: 2 * ours, view: before });
  assertLessOrEqual(2 * counted(await planned.view({ messages, tools }, { nowMs: 0 })), 10_000);
});

Deno.test("view() truncates new results that exceed the window, the longest first", async () => {
  const archive = memoryArchive();
  const planned = session({ archive, mechanisms: { truncate: false } });
  const calls = ["a", "b", "c"].map((id) => ({
    id,
    type: "function" as const,
    function: { name: "read", arguments: "{}" },
  }));
  const long = (of: string) => Array.from({ length: 2_500 }, (_, at) => `line ${at} of ${of}\n`).join("");
  const messages: Message[] = [
    { role: "user", content: "Read all." },
    { role: "assistant", content: null, tool_calls: calls },
    { role: "tool", tool_call_id: "a", content: long("a file") },
    { role: "tool", tool_call_id: "b", content: "short" },
    { role: "tool", tool_call_id: "c", content: long("another") },
  ];
  const view = await planned.view({ messages, tools }, { nowMs: 0 });
  // Estimated: a little less than a token per four letters.
  assertLessOrEqual(view.promptTokens, 1.05 * WINDOW);
  assertEquals(view.messages.map((message, at) => message === messages[at]), [
    true,
    true,
    false,
    true,
    false,
  ]);
  const ref = /ref ([0-9a-f]{16})/.exec(String(view.messages[2]?.content))?.[1] ?? "";
  assertEquals(await archive.get(ref), long("a file"));
});

/** Returns the cost of results that repeatedly just overflow a window, and the calls with rewrites. */
async function overflowing(
  { calls, chars, userShare }: {
    readonly calls: number;
    readonly chars: number;
    readonly userShare: number;
  },
) {
  const profile = profileNamed("deepseek");
  const windowTokens = 128_000;
  const planned = session({ windowTokens });
  const [cache, resent] = [new PrefixCache(profile), new PrefixCache(profile)];
  // User messages stay, and fill a part of the window for good.
  const messages: Message[] = [{
    role: "user",
    content: "said ".repeat(Math.ceil(0.8 * userShare * windowTokens)),
  }];
  const rewritten: number[] = [];
  let [cost, whole, longest] = [0, 0, 0];
  for (let call = 0; call < calls; call++) {
    messages.push(...step(call, chars));
    const nowMs = call * 1_000;
    const view = await planned.view({ messages: [...messages], tools }, { nowMs });
    if (view.rewrites.length > 0) rewritten.push(call);
    const paid = (units: ReturnType<typeof PrefixCache.unitsOf>, cache: PrefixCache) => {
      const promptTokens = units.reduce((sum, { tokens }) => sum + tokens, 0);
      const usage = { promptTokens, cachedTokens: cache.lookup(units, nowMs), outputTokens: 1 };
      cache.store(units, nowMs);
      return { usage, cost: promptCost(profile, usage) };
    };
    const sent = paid(PrefixCache.unitsOf(view, estimateTokens), cache);
    planned.sent(sent.usage, view);
    longest = Math.max(longest, sent.usage.promptTokens);
    cost += sent.cost;
    whole += paid(PrefixCache.unitsOf({ messages, tools }, estimateTokens), resent).cost;
  }
  assertLessOrEqual(longest, windowTokens);
  return { rewritten, share: cost / whole };
}

Deno.test("view() truncates new results whose references were expanded in a full window", async () => {
  const text = Array.from({ length: 200 }, (_, at) => `const some${at} = other.method${at}(argument${at});`);
  const read = (id: string) => ({
    id,
    type: "function" as const,
    function: { name: "read_file", arguments: `{"path":"${id}.ts"}` },
  });
  const result = (id: string, content: string): Message => ({ role: "tool", tool_call_id: id, content });
  // Possibly and certainly too many.
  for (const signs of [3_200, 4_000]) {
    const planned = session({ windowTokens: 10_000 });
    const first: Message[] = [
      { role: "user", content: "Read them." },
      { role: "assistant", tool_calls: [read("a")] },
      result("a", text.join("\n")),
    ];
    for (const messages of [first.slice(0, 1), first]) {
      const { promptTokens } = await planned.view({ messages, tools }, { nowMs: 0, recall: true });
      planned.sent({ promptTokens, cachedTokens: 0, outputTokens: 1 });
    }
    // Both repeat the first, and add characters of unknown count.
    const more = [...text, "字".repeat(signs)].join("\n");
    const messages: Message[] = [
      ...first,
      { role: "assistant", tool_calls: [read("b"), read("c")] },
      result("b", more),
      result("c", more),
    ];
    const cut = await planned.view({ messages, tools }, { nowMs: 0, recall: true });
    const [old, ...others] = cut.messages.filter(({ role }) => role === "tool")
      .map(({ content }) => contentText(content));
    assertMatch(old!, /^\[elided: read_file result, /);
    for (const one of others) assertMatch(one, /^const some0 .*\n\[elided: middle of read_file result, /s);
    const { state } = planned;
    const again = await planned.view({ messages, tools }, { nowMs: 0, recall: true });
    assertStrictEquals(planned.state, state);
    assertEquals([again.messages, again.rewrites], [cut.messages, []]);
  }
});

Deno.test("view() doesn't rewrite a full window twice in a row for the same room", async () => {
  for (const userShare of [0, 0.5, 0.7, 0.8, 0.84]) {
    for (const chars of [4_000, 8_000, 16_000]) {
      const { rewritten, share } = await overflowing({ calls: 60, chars, userShare });
      const gaps = rewritten.slice(1).map((call, at) => call - rewritten[at]!);
      assert(gaps.every((gap) => gap > 2), `${rewritten}`);
      assertLessOrEqual(share, 1.02);
    }
  }
});

async function* turnOf(
  steps: number,
  { reply, ...options }: Partial<PromptSessionOptions> & { reply: string | null },
) {
  const planned = session({ profile: profileNamed("anthropic-5m"), ...options });
  const messages: Message[] = [{ role: "user", content: "Go on until all is done." }];
  for (let at = 0; at < steps; at++) {
    const [call, result] = step(at, 800) as [AssistantMessage, Message];
    messages.push({ ...call, content: reply }, result);
    const view = await planned.view({ messages: [...messages], tools }, { nowMs: at * 1_000 });
    yield { messages, view };
    const { promptTokens, predictedCachedTokens } = view;
    planned.sent({ promptTokens, cachedTokens: predictedCachedTokens, outputTokens: 1 }, view);
  }
}

Deno.test("view() evicts steps of an endless turn with only calls left, and keeps the newest", async () => {
  let last: { readonly messages: readonly Message[]; readonly view: SessionView } | undefined;
  for await (const now of turnOf(1_000, { reply: null, windowTokens: 10 ** 9 })) last = now;
  const { messages, view } = last!;
  assertLess(view.messages.length, 900);
  // After the first remaining step, each message is visible.
  const newest = messages.length - 2 * 200;
  assertEquals(view.places.filter((place) => place >= newest).length, 2 * 200);
  assertEquals(view.messages[0], messages[0]);
  // The model's texts stay.
  for await (const now of turnOf(1_000, { reply: "I look at the next.", windowTokens: 10 ** 9 })) last = now;
  assertEquals(last!.view.messages.length, last!.messages.length);
});

Deno.test("view() stays within the window in an endless turn, whatever the model's texts", async () => {
  let most = 0;
  let rewrites = 0;
  const warnings = new Set<string>();
  for await (const { view } of turnOf(1_500, { reply: "I look at the next file, as it was asked for." })) {
    most = Math.max(most, view.promptTokens);
    rewrites += view.rewrites.length;
    for (const warning of view.warnings) warnings.add(warning.replace(/\d+/, "n"));
  }
  assertLessOrEqual(most, WINDOW);
  assertLess(rewrites, 250);
  assert(warnings.has("The window is full: the oldest n steps of the active turn were evicted."));
});
