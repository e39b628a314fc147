import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import fc, { cases } from "../../../tests/cases.ts";
import { workspaceTools } from "@tare/tools";
import { contentText, type Model, type Tool } from "@tare/messages";
import { archiveRef } from "@tare/prune";
import { expand } from "../../../tests/expand_compressed.ts";
import { anyResult } from "../../../tests/tool_results.ts";
import { agent, newSession, turn } from "../fixture_test.ts";

async function visibleOf(name: string, args: object, tool: Tool): Promise<string> {
  let visible = "";
  const model: Model = async function* ({ messages }) {
    const last = messages.at(-1)!;
    const call = { id: "1", type: "function", function: { name, arguments: JSON.stringify(args) } } as const;
    const isNew = last.role !== "tool";
    if (!isNew) visible = contentText(last.content);
    yield {
      type: "completed",
      message: { role: "assistant", content: isNew ? null : "Ok.", ...(isNew && { tool_calls: [call] }) },
      finishReason: isNew ? "tool_calls" : "stop",
    };
  };
  const handler = agent(model, { tools: [tool] });
  await turn(handler, await newSession(handler), "Go.");
  return visible;
}

Deno.test("compression in the agent loop: every result is rebuilt from the model's text, or recalled", async () => {
  let compressed = 0;
  await fc.assert(
    fc.asyncProperty(anyResult, async ({ tool: name, args, text }) => {
      const parameters = { type: "object", properties: {} };
      const tool: Tool = {
        definition: { type: "function", function: { name, parameters } },
        run: () => text,
      };
      const visible = await visibleOf(name, args, tool);
      if (visible === text) return;
      compressed++;
      const { text: expanded, ref } = expand(visible);
      assertEquals(ref ?? expanded, ref === undefined ? text : await archiveRef(text));
    }),
    { numRuns: cases(20) },
  );
  assert(compressed > 0);
});

Deno.test("compression in the agent loop: shell and read_file return tables and files unchanged", async () => {
  const workspace = await Deno.makeTempDir();
  try {
    const rows = (separator: string) =>
      Array.from({ length: 60 }, (_, at) => [at, `person_${at}`, (37 * at) % 101].join(separator)).join("\n");
    const texts = {
      "table.tsv": `id\tname\tscore\n${rows("\t")}\n`,
      "people.sqlite.txt": `${rows("|")}\n`,
      "package.json": `${
        JSON.stringify({ list: Array.from({ length: 60 }, (_, at) => ({ at })) }, null, 2)
      }\n`,
      "equal.txt": `${"same line\n".repeat(80)}`,
    };
    const tools = workspaceTools({ workspace });
    const toolNamed = (name: string) => tools.find(({ definition }) => definition.function.name === name)!;
    const [read, shell] = [toolNamed("read_file"), toolNamed("shell")];
    for (const [path, text] of Object.entries(texts)) {
      await Deno.writeTextFile(join(workspace, path), text);
      const byShell = await visibleOf("shell", { command: `cat ${path}` }, shell);
      assertEquals(byShell.slice(byShell.indexOf("\n") + 1), text);
      const byRead = await visibleOf("read_file", { path }, read);
      assertEquals(byRead.slice(byRead.indexOf("\n") + 1), text.replace(/\n$/, ""));
      const numbered = await visibleOf("shell", { command: `cat -n ${path}` }, shell);
      assert(numbered.startsWith('[compressed: line numbers "     1\\t" to '), numbered);
      const lines = text.replace(/\n$/, "").split("\n").map((line, at) =>
        `${String(at + 1).padStart(6)}\t${line}\n`
      );
      const [, ...rest] = expand(numbered).text.split("\n");
      assertEquals(rest.join("\n"), lines.join(""));
    }
  } finally {
    await Deno.remove(workspace, { recursive: true });
  }
});
