import { assertEquals, assertLess } from "@std/assert";
import type { ToolDefinition } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { compactTools } from "@tare/schemas";
import { needs, RECORDINGS } from "../../tests/needs.ts";

const { count: countTokens } = await loadTokenizer();

/** Returns the tokens of a set of tools in the first request and in later ones. */
function measure(tools: readonly ToolDefinition[]): { before: number; after: number } {
  const first = compactTools(tools, { exposed: new Set(), countTokens, minTokens: 0 });
  const second = compactTools(tools, { exposed: first.exposed, countTokens, minTokens: 0 });
  return { before: first.tokensAfter, after: second.tokensAfter };
}

const FILE_TOOLS: readonly ToolDefinition[] = [
  {
    type: "function",
    function: {
      name: "read_file",
      description: "Reads a text file. Long files are cut: read the rest with `from` and `to`. " +
        "Lines are numbered in the result; the numbers are no part of the file.",
      parameters: {
        type: "object",
        properties: {
          path: { type: "string", description: "Path from the root of the workspace, such as src/main.ts." },
          from: { type: "integer", minimum: 1, description: "First line to read. Default: 1." },
          to: { type: "integer", minimum: 1, description: "Last line to read. Default: the last one." },
        },
        required: ["path"],
        additionalProperties: false,
      },
    },
  },
  {
    type: "function",
    function: {
      name: "search_files",
      description: "Searches the text of all files for a regular expression, line by line. " +
        "Prefer it to reading whole files. Ignored and binary files are skipped.",
      parameters: {
        type: "object",
        properties: {
          pattern: { type: "string", minLength: 1, description: "A regular expression (RE2 syntax)." },
          path: { type: "string", description: "Folder to search. Default: the whole workspace." },
          case: {
            type: "string",
            enum: ["sensitive", "insensitive"],
            description: "Whether capitals matter. Default: sensitive.",
          },
        },
        required: ["pattern"],
        additionalProperties: false,
      },
    },
  },
  {
    type: "function",
    function: {
      name: "shell",
      description:
        "Runs a command in the shell, in the root of the workspace. Its output is cut in the middle if " +
        "it is long. Put several independent read-only inspections into one command.",
      parameters: {
        type: "object",
        properties: {
          command: { type: "string", description: "The command line, as you would type it." },
          timeout_seconds: {
            type: "integer",
            minimum: 1,
            maximum: 600,
            description: "After how many seconds to stop it. Default: 60.",
          },
        },
        required: ["command"],
        additionalProperties: false,
      },
    },
  },
];

Deno.test("compactTools() measured: a few file tools take 393 tokens before and 158 after", () => {
  assertEquals(measure(FILE_TOOLS), { before: 393, after: 158 });
});

const recorded = new URL("../../../shared/trajectories/github-mcp-server.json", import.meta.url);

Deno.test({
  ...needs(
    RECORDINGS,
    "compactTools() measured: 117 tools of an MCP server take less than half of their tokens after the first time",
  ),
  fn: async () => {
    const { tools } = JSON.parse(await Deno.readTextFile(recorded));
    const { before, after } = measure(tools);
    assertEquals(tools.length, 117);
    assertLess(after, before / 2);
  },
});
