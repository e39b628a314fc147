// Runs what README.md of the adapters and docs/own_loop.md show of frameworks, as it stands there, against a simulated provider.
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { contentText } from "@tare/messages";
import { scripted, toolCall } from "@tare/simulator";
import { startUpstream } from "../../gateway/upstream.ts";

const PAGES = ["../../../packages/adapters/README.md", "../../../docs/own_loop.md"];

/** What the examples of a framework take for granted, by what they import from it, and what makes the agent work. */
const FRAMEWORKS: Readonly<Record<string, { readonly given: string; readonly then?: string }>> = {
  "@tare/adapters/ai-sdk": {
    given: `import { jsonSchema, tool as aiTool } from "ai";
      const inputSchema = jsonSchema<object>({ type: "object", properties: {} });
      const tools = { read_log: aiTool({ description: "Reads the log.", inputSchema, execute: () => log }) };`,
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

/** Imports that an example leaves out where another one beside it has them. */
const IMPORTS: Readonly<Record<string, string>> = {
  OpenAI: `import OpenAI from "openai";`,
  openai: `import { openai } from "@ai-sdk/openai";`,
};

interface Example {
  readonly name: string;
  readonly framework: string;
  readonly script: string;
}

function examplesOf(page: string): Example[] {
  const text = Deno.readTextFileSync(new URL(page, import.meta.url));
  const blocks = [...text.matchAll(/^```ts ignore\n([^]*?)^```$/gm)].map(([, block = ""]) => block);
  return blocks.map((block) => {
    const [, framework = ""] = /from "(@tare\/adapters\/[^"]+)"/.exec(block) ?? [];
    const { given = "", then = "" } = FRAMEWORKS[framework] ?? {};
    const whole = `const question = "Why do nightly builds fail?";
      const log = Array.from({ length: 8_000 }, (_, at) => "error " + at + ": no space left on device\\n").join("");
      ${given}\n${block}\n${then}`;
    const missing = Object.entries(IMPORTS).flatMap(([name, line]) =>
      new RegExp(`\\b${name}\\b(?!")`).test(whole) && !new RegExp(`import .*\\b${name}\\b`).test(whole)
        ? [line]
        : []
    );
    return { name: `${page.slice(9)}: ${framework}`, framework, script: [...missing, whole].join("\n") };
  });
}

async function deno(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<void> {
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: [...args],
    env: { ...env, NO_COLOR: "1" },
  }).output();
  const said = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes)).join("\n");
  assert(success, said);
}

const CONFIG = ["--config", new URL("../deno.json", import.meta.url).pathname];

Deno.test("the frameworks' examples have the types of the frameworks, and run as they stand on the pages", async (test) => {
  const folder = await Deno.makeTempDir({ dir: new URL(".", import.meta.url).pathname });
  try {
    const examples = PAGES.flatMap(examplesOf).map((example, at) => ({
      ...example,
      path: `${folder}/${at}.ts`,
    }));
    for (const { path, script } of examples) await Deno.writeTextFile(path, script);
    const told = examples.map(({ framework }) => framework);
    assertEquals(told.sort(), Object.keys(FRAMEWORKS).flatMap((name) => [name, name]).sort());
    await deno(["check", ...CONFIG, ...examples.map(({ path }) => path)]);
    for (const { name, path } of examples) await test.step(name, () => runExample(path));
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

/** A model that reads the log and answers must be shown head and tail of it, and offered to recall the rest. */
async function runExample(path: string): Promise<void> {
  await using upstream = await startUpstream(scripted([
    { content: null, tool_calls: [toolCall("read_log", {})] },
    { content: "The disk is full." },
  ]));
  const env = { OPENAI_API_KEY: "key", OPENAI_BASE_URL: upstream.baseURL, MASTRA_TELEMETRY_DISABLED: "1" };
  await deno(["run", "--no-check", "--allow-all", ...CONFIG, path], env);
  assertEquals(upstream.requests.length, 2);
  const [, { messages, tools }] = upstream.requests as [unknown, (typeof upstream.requests)[number]];
  assertStringIncludes(contentText(messages.at(-1)?.content), "[elided: middle of read_log result");
  assertEquals(tools.map(({ function: { name } }) => name).sort(), ["read_log", "recall"]);
}
