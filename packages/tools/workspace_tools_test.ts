import { assertEquals, assertStringIncludes } from "@std/assert";
import { argumentsParser } from "@tare/loop/arguments";
import { memoryArchive } from "@tare/prune";
import { recallTool, workspaceTools } from "@tare/tools";
import { callError, callOk, makeWorkspace } from "./fixture_test.ts";

const tools = workspaceTools({ workspace: "/", archive: memoryArchive(), shell: { timeoutMs: 1000 } });

Deno.test("workspaceTools() returns all tools, each with its stance", () => {
  assertEquals(tools.map(({ definition, stance }) => [definition.function.name, stance]), [
    ["list_files", "rederivable"],
    ["read_file", "rederivable"],
    ["search_files", "rederivable"],
    ["write_file", "once"],
    ["edit_file", "once"],
    ["shell", "once"],
    ["update_plan", "rederivable"],
    ["recall", "rederivable"],
  ]);
});

Deno.test("workspaceTools() returns no recall without an archive, and passes the shell its limits", () => {
  const names = workspaceTools({ workspace: "/" }).map(({ definition }) => definition.function.name);
  assertEquals(names.includes("recall"), false);
  assertEquals(tools.find(({ definition }) => definition.function.name === "shell")?.timeoutMs, 6000);
});

Deno.test("workspaceTools() describes every tool and every argument, in closed schemas", () => {
  for (const { definition: { function: { name, description, parameters } } } of tools) {
    const { properties, additionalProperties } = parameters as {
      properties: Record<string, { type?: string; description?: string; minimum?: number }>;
      additionalProperties: boolean;
    };
    assertEquals([typeof description, additionalProperties], ["string", false], name);
    for (const [argument, schema] of Object.entries(properties)) {
      assertEquals(typeof schema.description, "string", `${name} ${argument}`);
      if (schema.type === "integer") assertEquals(typeof schema.minimum, "number", `${name} ${argument}`);
    }
  }
});

Deno.test("workspaceTools() rejects invalid arguments by schema", () => {
  const invalid: Record<string, readonly unknown[]> = {
    list_files: [{ depth: 0 }, { path: 1 }, { recursive: true }, { glob: "" }],
    read_file: [
      {},
      { also: [{ path: "a" }] },
      { path: "a", also: ["b"] },
      {
        path: "a",
        also: [{ path: "b", lines: 1 }],
      },
      { path: "a", also: Array(32).fill({ path: "b" }) },
      { path: "a", start_line: 0 },
      { path: "a", start_line: 1.5 },
      {
        path: "a",
        end_line: "9",
      },
    ],
    search_files: [{}, { pattern: "a", output: "json" }, { pattern: "a", context_lines: -1 }, {
      pattern: "a",
      max_results: 1e6,
    }],
    write_file: [{ path: "a" }, { path: "", content: "" }, { path: "a", content: 1 }],
    edit_file: [{ path: "a", old_text: "", new_text: "" }, { path: "a", old_text: "a" }],
    shell: [{}, { command: "" }, { command: "ls", timeout_ms: 0 }, { command: "ls", timeout_ms: 2000 }],
    update_plan: [{ steps: [] }, { steps: [1] }, { done: -1 }, { done: 1.5 }, { plan: ["a"] }],
    recall: [{ ref: 1 }, { find: 1 }, { pattern: "a" }],
  };
  for (const { definition } of tools) {
    const parse = argumentsParser(definition);
    const results = invalid[definition.function.name]?.map((args) => parse(JSON.stringify(args)).ok);
    assertEquals(results, results?.map(() => false), definition.function.name);
  }
});

Deno.test("recall returns an original whole, by lines or by a text, and finds a text in all evicted ones", async () => {
  const archive = memoryArchive();
  const ref = await archive.put("apple\nbanana\ncherry");
  const line = `[elided: read result, 19 bytes; recall with ref ${ref}]`;
  const recall = recallTool(archive, { visible: () => [{ role: "user", content: line }] });
  assertEquals(await callOk(recall, { ref }), "apple\nbanana\ncherry");
  assertEquals(await callOk(recall, { ref, lines: "2-2" }), "banana");
  assertEquals(await callOk(recall, { ref, find: "CH" }), "1-apple\n2-banana\n3:cherry");
  assertEquals(await callOk(recall, { find: "CH" }), `ref ${ref}, user message: 1 of 3 lines\n3:cherry`);
});

Deno.test("recall limits its answer to limitTokens", async () => {
  const archive = memoryArchive();
  const ref = await archive.put("word ".repeat(5000));
  assertStringIncludes(
    await callOk(recallTool(archive, { limitTokens: 200 }), { ref }),
    "continue with offset",
  );
});

Deno.test("recall explains an unknown reference", async () => {
  assertStringIncludes(
    await callError(recallTool(memoryArchive()), { ref: "0123456789abcdef" }),
    "Cannot recall",
  );
});

Deno.test("recallTool() is rederivable", () => {
  assertEquals(recallTool(memoryArchive()).stance, "rederivable");
});

Deno.test("workspaceTools() hides a folder from the file tools in every spelling, links included", async () => {
  await using ws = await makeWorkspace({ "data/tare.db": "sessions", "notes.txt": "sessions", "sub/": "" });
  await Deno.symlink("data", ws.at("link"));
  await Deno.symlink("../data/tare.db", ws.at("sub/file"));
  await Deno.symlink("data/new", ws.at("dangling"));
  const named = new Map(
    workspaceTools({ workspace: ws.root, hidden: ws.at("link") })
      .map((tool) => [tool.definition.function.name, tool]),
  );
  const paths = [
    ...["data/tare.db", "./data//tare.db", "sub/../data/tare.db", "link/tare.db", "link/../data/tare.db"],
    ...["sub/file", "dangling", "data/new/file", ws.at("data/tare.db")],
  ];
  const retained = "it is in a folder of the server, which no tool may access.";
  for (const path of paths) {
    const calls = {
      read_file: { path },
      list_files: { path },
      search_files: { path, pattern: "s" },
      write_file: { path, content: "" },
      edit_file: { path, old_text: "sessions", new_text: "" },
    };
    for (const [name, args] of Object.entries(calls)) {
      assertStringIncludes(await callError(named.get(name)!, args), retained, `${name} ${path}`);
    }
  }
  assertEquals(
    await callOk(named.get("list_files")!, { depth: 5, include_hidden: true }),
    "entries in .: 5; hidden or ignored, skipped: 1\ndangling\tlink\nlink\tlink\nnotes.txt\t8\nsub/\nsub/file\tlink",
  );
  assertEquals(
    await callOk(named.get("search_files")!, { pattern: "sessions", output: "files", include_hidden: true }),
    "files with matches: 1; files searched: 1; hidden or ignored, skipped: 1\nnotes.txt",
  );
  assertStringIncludes(
    await callError(named.get("read_file")!, { path: "tare.db" }),
    "it does not exist. Look for it with list_files.",
  );
  assertEquals(await Deno.readTextFile(ws.at("data/tare.db")), "sessions");
});
