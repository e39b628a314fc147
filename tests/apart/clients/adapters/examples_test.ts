// Runs the real-client examples of the packages' READMEs and docs/own_loop.md unchanged, against a simulated
// provider.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { contentText } from "@tare/messages";
import { scripted, type SimulatedCall, type SimulatedReply, toolCall } from "@tare/simulator";
import { startUpstream } from "../../../gateway/upstream.ts";

/** Packages whose READMEs begin with a real client; the others' examples are run by the suite. */
const PACKAGES = [
  "messages",
  "context",
  "prune",
  "schemas",
  "planner",
  "adapters",
  "wire",
  "loop",
  "gateway",
];

const PAGES = [...PACKAGES.map((name) => `packages/${name}/README.md`), "docs/own_loop.md"];

const ELSEWHERE = ["@anthropic-ai/claude-agent-sdk"];

/** Declarations that an example assumes, values that make it run, and its expected result. */
interface Setting {
  readonly given: string;
  readonly then?: string;
  /** Replies of the model. Default: it reads the log, and answers. */
  readonly replies?: readonly SimulatedReply[];
  /** Checks the requests. Default: the model sees a truncated log, and has a recall tool. */
  readonly check?: (requests: readonly SimulatedCall[]) => void;
}

const ANSWERS: readonly SimulatedReply[] = [{ content: "The disk is full." }];

const TOOLS = `const tools = [{ type: "function" as const, function: { name: "read_log",
  description: "Reads the log. ".repeat(300), parameters: { type: "object", properties: {} } } }];`;

const CONVERSATION = `const conversation: (OpenAI.ChatCompletionMessageParam & Message)[] = [
  { role: "user", content: question },
  ...[1, 2, 3].flatMap((at) => [
    { role: "assistant" as const, tool_calls: [{ id: "" + at, type: "function" as const,
      function: { name: "read_log", arguments: "{}" } }] },
    { role: "tool" as const, tool_call_id: "" + at, content: log },
  ]),
];`;

const SETTINGS: Readonly<Record<string, Setting>> = {
  "@tare/messages": {
    given: TOOLS,
    replies: ANSWERS,
    check: (requests) => assertEquals(requests.length, 1),
  },
  "@tare/context": {
    given: `import type { Message } from "@tare/messages";
      ${TOOLS}
      ${CONVERSATION}
      conversation.unshift({ role: "user", content: log }, { role: "assistant", content: "So." });`,
    replies: ANSWERS,
    check: ([{ messages } = { messages: [] }]) => assertEquals(messages.length, 7),
  },
  "@tare/prune": {
    given: `import type { Message } from "@tare/messages";
      ${TOOLS}
      ${CONVERSATION}
      const messages = conversation;`,
    replies: ANSWERS,
    check([request]) {
      assertStringIncludes(contentText(request?.messages[2]?.content), "[elided: ");
      assertEquals(request?.tools.length, 2);
    },
  },
  "@tare/schemas": {
    given: `${TOOLS}
      const questions = [question, question];`,
    replies: [...ANSWERS, ...ANSWERS],
    check(requests) {
      const [first = 0, second = 0] = requests.map(({ tools }) => JSON.stringify(tools).length);
      assert(second < first / 2, `${first}, ${second}`);
    },
  },
  "@tare/planner": {
    given: `${TOOLS}
      const runTool = (_name: string) => Promise.resolve(log);`,
  },
  "@tare/wire": {
    given: `const input_schema = { type: "object" as const, properties: {} };
      const tools = [{ name: "read_log", description: "Reads the log.", input_schema }];
      const runTool = (_name: string) => log;`,
  },
  "@tare/loop": {
    given: `const workspace = await Deno.makeTempDir();
      await Deno.writeTextFile(workspace + "/notes.txt", "The disk is full.");`,
    replies: [{ content: null, tool_calls: [toolCall("read_file", { path: "notes.txt" })] }, ...ANSWERS],
    check: (requests) =>
      assertStringIncludes(contentText(requests[1]?.messages.at(-1)?.content), "The disk is full."),
  },
  "@tare/gateway": {
    given: `import type { Message } from "@tare/messages";
      ${TOOLS}
      ${CONVERSATION}
      const messages = conversation;`,
    then: `console.log(reply?.message.content); await lean.close();`,
    replies: ANSWERS,
    check([request]) {
      // Nothing of an unknown history is evicted by price.
      assertStringIncludes(contentText(request?.messages[2]?.content), "no space left on device");
      assertEquals(request?.tools.length, 2);
    },
  },
  "@tare/adapters/ai-sdk": {
    given: `import { jsonSchema, tool as aiTool } from "ai";
      const inputSchema = jsonSchema<object>({ type: "object", properties: {} });
      const tools = { read_log: aiTool({ description: "Reads the log.", inputSchema, execute: () => log }) };`,
  },
  "prepareStep": {
    given: `import { tool as aiTool } from "ai";
      import { estimateTokens } from "@tare/messages";
      import { chooseProfile, type LedgerEntry, plannerSession } from "@tare/planner";
      import { memoryArchive } from "@tare/prune";
      const archive = memoryArchive();
      const ledger: (LedgerEntry | undefined)[] = [];
      const session = plannerSession({
        profile: chooseProfile({ model: "gpt-5.5" }),
        archive,
        countTokens: estimateTokens,
      });
      const inputSchema = jsonSchema<object>({ type: "object", properties: {} });
      const tools = { read_log: aiTool({ description: "Reads the log.", inputSchema, execute: () => log }) };`,
    then: `await agent.generate({ prompt: question });
      const saved = ledger.reduce((sum, one) => sum + (one?.baselineCostUnits ?? 0) - (one?.costUnits ?? 0), 0);
      // The middle of the log, of 80,000 tokens by its provider's count; a recall is a call that would not be made directly.
      if (ledger.length !== 3 || saved < 60_000 || saved > 70_000) throw new Error("saved " + saved);`,
    replies: [
      { content: null, tool_calls: [toolCall("read_log", {})] },
      { content: null, tool_calls: [toolCall("recall", { ref: "0123456789abcdef" })] },
      ...ANSWERS,
    ],
    check(requests) {
      isLean(requests);
      assertStringIncludes(
        contentText(requests[2]?.messages.at(-1)?.content),
        "Cannot recall '0123456789abcdef'",
      );
    },
  },
  "@tare/adapters/langchain": {
    given: `import { ChatOpenAI } from "@langchain/openai";
      import { tool as langchainTool } from "langchain";
      const model = new ChatOpenAI({ model: "gpt-5.5", maxRetries: 0 });
      const schema = { type: "object" as const, properties: {} };
      const tools = [langchainTool(() => log, { name: "read_log", description: "Reads the log.", schema })];`,
    then: `await agent.invoke({ messages: [{ role: "user", content: question }] });`,
  },
  "@tare/adapters/openai-agents": {
    given: `import { MemorySession, setTracingDisabled, tool as agentTool } from "@openai/agents";
      setTracingDisabled(true);
      const session = new MemorySession();
      const parameters = { type: "object" as const, properties: {}, required: [], additionalProperties: false as const };
      const execute = () => log;
      const tools = [agentTool({ name: "read_log", description: "Reads the log.", parameters, execute })];`,
    then: `console.log(result.finalOutput);`,
  },
  "@tare/adapters/mastra": {
    given: `import type { MastraModelConfig } from "@mastra/core/llm";
      import { createTool as newTool } from "@mastra/core/tools";
      import { jsonSchema } from "ai";
      const instructions = "You review builds.";
      const model = openai("gpt-5.5") as unknown as MastraModelConfig;
      const inputSchema = jsonSchema<object>({ type: "object", properties: {} });
      const execute = () => Promise.resolve(log);
      const tools = { read_log: newTool({ id: "read_log", description: "Reads the log.", inputSchema, execute }) };`,
    then: `await agent.generate(question);`,
  },
};

/** Imports that an example omits because another one next to it has them. */
const IMPORTS: Readonly<Record<string, string>> = {
  OpenAI: `import OpenAI from "openai";`,
  openai: `import { openai } from "@ai-sdk/openai";`,
};

interface Example {
  readonly name: string;
  readonly key: string;
  readonly script: string;
}

function examplesOf(page: string): Example[] {
  const text = Deno.readTextFileSync(new URL(`../../../../${page}`, import.meta.url));
  const blocks = [...text.matchAll(/^```ts ignore\n([^]*?)^```$/gm)].map(([, block = ""]) => block)
    .filter((block) => block.startsWith("import ") && !ELSEWHERE.some((name) => block.includes(name)));
  const [, own = ""] = /^packages\/(\w+)/.exec(page) ?? [];
  const examples = own === "" || own === "adapters" ? blocks : blocks.slice(0, 1);
  return examples.map((block) => {
    const [, adapter] = /from "(@tare\/adapters\/[^"]+)"/.exec(block) ?? [];
    const key = block.includes("prepareStep") ? "prepareStep" : adapter ?? `@tare/${own}`;
    const { given = "", then = "" } = SETTINGS[key] ?? {};
    const whole = `const question = "Why do nightly builds fail?";
      const log = Array.from({ length: 8_000 }, (_, at) => "error " + at + ": no space left on device\\n").join("");
      ${given}\n${block}\n${then}`;
    const missing = Object.entries(IMPORTS).flatMap(([name, line]) =>
      new RegExp(`\\b${name}\\b(?!")`).test(whole) && !new RegExp(`import .*\\b${name}\\b`).test(whole)
        ? [line]
        : []
    );
    return { name: `${page}: ${key}`, key, script: [...missing, whole].join("\n") };
  });
}

async function deno(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<void> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [...args],
    env: { ...env, NO_COLOR: "1" },
  }).output();
  const output = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)).join("\n");
  assert(success, output);
}

const CONFIG = ["--config", new URL("../../deno.json", import.meta.url).pathname];

Deno.test("documentation examples: code for real clients type-checks and runs as published", async (test) => {
  const folder = await Deno.makeTempDir({ dir: new URL(".", import.meta.url).pathname });
  try {
    const examples = PAGES.flatMap(examplesOf).map((example, at) => ({
      ...example,
      path: `${folder}/${at}.ts`,
    }));
    for (const { path, script } of examples) await Deno.writeTextFile(path, script);
    const keys = new Set(examples.map(({ key }) => key));
    assertEquals([...keys].sort(), Object.keys(SETTINGS).sort());
    await deno(["check", ...CONFIG, ...examples.map(({ path }) => path)]);
    for (const { name, key, path } of examples) await test.step(name, () => runExample(path, SETTINGS[key]!));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

const READS: readonly SimulatedReply[] = [
  { content: null, tool_calls: [toolCall("read_log", {})] },
  ...ANSWERS,
];

async function runExample(path: string, { replies = READS, check = isLean }: Setting): Promise<void> {
  await using upstream = await startUpstream(scripted(replies));
  const env = {
    OPENAI_API_KEY: "key",
    OPENAI_BASE_URL: upstream.baseURL,
    ANTHROPIC_API_KEY: "key",
    ANTHROPIC_BASE_URL: upstream.baseURL.replace("/v1", ""),
    MASTRA_TELEMETRY_DISABLED: "1",
  };
  await deno(["run", "--no-check", "--allow-all", ...CONFIG, path], env);
  assertEquals(upstream.requests.length, replies.length);
  check(upstream.requests);
}

function isLean([, request]: readonly SimulatedCall[]): void {
  assertStringIncludes(contentText(request?.messages.at(-1)?.content), "[elided: middle of read_log result");
  assertEquals(request?.tools.map(({ function: { name } }) => name).sort(), ["read_log", "recall"]);
}
