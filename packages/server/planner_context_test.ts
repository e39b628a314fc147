import { assertEquals, assertGreater, assertMatch } from "@std/assert";
import { estimateTokens, type Message, type Tool, type Usage } from "@tare/messages";
import { type LedgerEntry, profileNamed } from "@tare/planner";
import { type Archive, memoryArchive } from "@tare/prune";
import { plannerContext } from "./planner_context.ts";
import type { ContextOptions, SessionContext } from "./session_context.ts";

const ALL = { context: true, prune: true, schemas: true, bound: true };
const OFF = { context: false, prune: false, schemas: false, bound: false };

const read: Tool = {
  definition: {
    type: "function",
    function: {
      name: "read",
      description: "Reads a file. ".repeat(200),
      parameters: { type: "object", properties: { path: { type: "string", description: "A path." } } },
    },
  },
  stance: "rederivable",
  run: () => "",
};

/** A turn that reads a file of so many tokens. */
function turn(id: string, tokens: number): Message[] {
  const call = { id, type: "function", function: { name: "read", arguments: `{"path":"${id}"}` } } as const;
  return [
    { role: "user", content: `Read ${id}.` },
    { role: "assistant", tool_calls: [call] },
    { role: "tool", tool_call_id: id, content: "word ".repeat(tokens * 4 / 5) },
    { role: "assistant", content: "ok" },
  ];
}

function make(options: Partial<ContextOptions> = {}): { context: SessionContext; archive: Archive } {
  const archive = options.archive ?? memoryArchive();
  const context = plannerContext({
    mechanisms: ALL,
    profile: profileNamed("none"),
    windowTokens: 1_000_000,
    tools: [read],
    archive,
    countTokens: estimateTokens,
    model: "m",
    now: () => 0,
    ...options,
  });
  return { context, archive };
}

async function view(context: SessionContext, messages: readonly Message[], step = 2) {
  const turnStart = messages.findLastIndex(({ role }) => role === "user");
  const { signal } = new AbortController();
  const tools = [read.definition];
  const seen = await context.view({ messages, tools, turnStart, step, signal, progress() {} });
  const { saved = {}, rewrites = [], warnings = [], succeeded = () => undefined } = seen;
  return { ...seen, saved, rewrites, warnings, succeeded };
}

function usage(promptTokens: number, cachedTokens = 0): Usage {
  return { promptTokens, cachedTokens, outputTokens: 1 };
}

const history = [...turn("a", 10_000), ...turn("b", 10_000), ...turn("c", 20_000)];
const question: Message = { role: "user", content: "And now?" };

Deno.test("plannerContext() rewrites at once where nothing is cached, and the change sticks", async () => {
  const { context } = make({ mechanisms: { ...OFF, prune: true } });
  const first = await view(context, [...history, question]);
  assertEquals(first.rewrites.map(({ mechanism, removed }) => [mechanism, removed]), [
    ["planner", "3 old results"],
  ]);
  assertMatch(String(first.messages[2]!.content), /^\[elided: read result/);
  const entry = first.succeeded(usage(30_000)) as LedgerEntry;
  assertEquals([entry.usage.promptTokens, entry.decision?.cause], [30_000, "price"]);
  const second = await view(context, [...history, question, { role: "assistant", content: "ok" }, question]);
  assertEquals(second.messages.slice(0, first.messages.length), first.messages);
  assertEquals([second.rewrites, second.saved.prune], [[], first.saved.prune]);
  assertEquals([second.saved.context, second.saved.schemas, second.saved.bound], [0, 0, 0]);
});

Deno.test("plannerContext() leaves a warm prompt alone until the rent has paid for the rewrite", async () => {
  let nowMs = 0;
  const { context } = make({
    mechanisms: { ...OFF, prune: true },
    profile: profileNamed("anthropic-5m"),
    now: () => nowMs,
  });
  const answer = "I wrote down what I know. ".repeat(460);
  let messages: readonly Message[] = turn("a", 10_000);
  let rewrittenAt = 0;
  let cached = 0;
  for (let step = 1; step <= 300 && rewrittenAt === 0; step++) {
    messages = [...messages, question];
    const seen = await view(context, messages, step);
    if (seen.rewrites.length > 0) rewrittenAt = step;
    const tokens = estimateTokens(JSON.stringify([seen.messages, seen.tools]));
    seen.succeeded(usage(tokens, cached));
    cached = tokens;
    messages = [...messages, { role: "assistant", content: step <= 6 ? answer : "Go on." }];
    nowMs += 1_000;
  }
  // Its rent is a thousand tokens' price a step, from the fourth step on, and to read again what stands behind it
  // costs 21 times as much.
  assertGreater(rewrittenAt, 25);
});

Deno.test("plannerContext() bounds a huge result before its first send, behind dropped turns too", async () => {
  const { context, archive } = make();
  const old = Array.from({ length: 8 }, (_, index) => turn(`old${index}`, 10_000)).flat();
  const first = await view(context, [...old, question]);
  assertEquals(first.messages.length < old.length, true);
  first.succeeded(usage(10_000));
  const huge = turn("huge", 30_000).slice(0, 3);
  const second = await view(context, [...old, ...huge]);
  const bounded = second.rewrites.find(({ mechanism }) => mechanism === "bound");
  assertEquals(bounded?.removed, "the middle of 1 result of read");
  const ref = /ref ([0-9a-f]{16})/.exec(String(second.messages.at(-1)!.content))?.[1];
  assertEquals(await archive.get(ref ?? ""), huge[2]!.content);
  assertGreater(second.saved.bound!, 20_000);
});

Deno.test("plannerContext() with every mechanism off shows everything", async () => {
  const { context } = make({ mechanisms: OFF, notice: "a rehearsal model answers" });
  const messages = [...history, question];
  const seen = await view(context, messages, 1);
  assertEquals([seen.messages, seen.tools, seen.rewrites], [messages, [read.definition], []]);
  assertEquals([seen.saved, seen.warnings], [
    { context: 0, prune: 0, schemas: 0, bound: 0 },
    ["a rehearsal model answers"],
  ]);
});

Deno.test("plannerContext() changes nothing and says why when the archive fails", async () => {
  const archive: Archive = { ...memoryArchive(), put: () => Promise.reject(new Error("the disk is full")) };
  const { context } = make({ archive, mechanisms: { ...ALL, schemas: false, context: false } });
  const messages = [...history, ...turn("huge", 30_000).slice(0, 3)];
  const seen = await view(context, messages);
  assertEquals(seen.messages, messages);
  assertEquals(seen.warnings.length, 2);
  for (const warning of seen.warnings) assertMatch(warning, /the disk is full\. Nothing left the prompt\.$/);
});

Deno.test("plannerContext() asks for a summary when the window is full of what isn't tool results", async () => {
  const text = Array.from({ length: 40 }, (_, index): Message[] => [
    { role: "user", content: `Question ${index}.` },
    { role: "assistant", content: `Answer ${index}. `.repeat(1_000) },
  ]).flat();
  let asked = 0;
  const { context } = make({
    windowTokens: 100_000,
    profile: profileNamed("anthropic-5m"),
    mechanisms: ALL,
    summarise: () => (asked++, Promise.resolve({ text: "They counted.", usage: usage(90_000) })),
  });
  const seen = await view(context, [...text, question]);
  assertEquals([asked, seen.rewrites.length], [seen.messages.length < text.length ? asked : -1, 1]);
  const total = seen.messages.reduce((sum, { content }) => sum + estimateTokens(String(content)), 0);
  assertEquals(total < 90_000, true);
});

Deno.test("plannerContext() restored from its state shows the same bytes and decides alike", async () => {
  const messages = [...history, question];
  const { context, archive } = make({ profile: profileNamed("openai") });
  const first = await view(context, messages);
  first.succeeded(usage(40_000, 0));
  const state = JSON.parse(JSON.stringify(context.state));
  const { context: restored } = make({ profile: profileNamed("openai"), archive, state });
  const next = [...messages, { role: "assistant", content: "ok" } as const, question];
  const [before, after] = [await view(context, next), await view(restored, next)];
  assertEquals(
    JSON.stringify([after.messages, after.tools]),
    JSON.stringify([before.messages, before.tools]),
  );
  assertEquals(
    JSON.parse(JSON.stringify(after.succeeded(usage(40_100, 39_936)))),
    JSON.parse(JSON.stringify(before.succeeded(usage(40_100, 39_936)))),
  );
});
