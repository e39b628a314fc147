import { assertEquals, assertLess } from "@std/assert";
import { countRequestTokens } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { memoryArchive } from "@tare/prune";
import { compactTool, compactTools } from "@tare/schemas";
import { programTool } from "@tare/tools/programs";
import { workspaceTools } from "@tare/tools";
import { BackgroundCommands } from "@tare/tools/shell";

const tools = workspaceTools({ workspace: ".", archive: memoryArchive() }).map((tool) => tool.definition);

Deno.test("compactTools() more than halves the tokens of the built-in tools from their second exposure on", async () => {
  const { count: countTokens } = await loadTokenizer();
  const first = compactTools(tools, { exposed: new Set(), countTokens });
  const second = compactTools(tools, { exposed: first.exposed, countTokens });
  assertEquals([first.tools, first.tokensAfter], [tools, first.tokensBefore]);
  assertEquals(second.tokensAfter, countRequestTokens({ messages: [], tools: second.tools }, countTokens));
  assertLess(second.tokensAfter, second.tokensBefore / 2);
});

Deno.test("first request: the agent's tools and instructions are small", async () => {
  const { count } = await loadTokenizer();
  const shell = { background: new BackgroundCommands() };
  const offered = [...workspaceTools({ workspace: ".", archive: memoryArchive(), shell }), programTool()];
  const tokens = countRequestTokens({
    messages: [],
    tools: offered.map(({ definition }) => definition),
  }, count);
  assertLess(tokens, 1_500);
  const instructions = new URL("../packages/app/prompt/instructions.md", import.meta.url);
  assertLess(count(await Deno.readTextFile(instructions)), 415);
});

Deno.test("compactTool() of the built-in tools retains the required arguments", () => {
  for (const tool of tools) {
    const compact = compactTool(tool);
    assertEquals(compact.function.name, tool.function.name);
    assertEquals(compact.function.parameters?.required, tool.function.parameters?.required);
    assertEquals(
      Object.keys(Object(compact.function.parameters?.properties)),
      Object.keys(Object(tool.function.parameters?.properties)),
    );
  }
});
