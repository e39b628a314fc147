import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { httpEverything } from "./http_everything.ts";
import { call, tryServers } from "./mcp_client.ts";
import { npmServer } from "./mcp_programs.ts";

Deno.test("server-everything: tools, annotations, progress and all kinds of results work", async () => {
  const all = npmServer("everything", "stdio");
  {
    await using untrusted = tryServers({ all });
    const stances = [...(await untrusted.tools("all")).values()].map(({ stance }) => stance);
    assertEquals(stances, stances.map(() => "once"));
  }
  await using servers = tryServers({ all: { ...all, trustHints: true } });
  const tools = await servers.tools("all");
  assertEquals(Array.from(tools, ([name, { stance }]) => `${name} ${stance}`), [
    "all__echo rederivable",
    "all__get-annotated-message rederivable",
    "all__get-env rederivable",
    "all__get-resource-links rederivable",
    "all__get-resource-reference rederivable",
    "all__get-structured-content rederivable",
    "all__get-sum rederivable",
    "all__get-tiny-image rederivable",
    "all__gzip-file-as-resource once",
    "all__simulate-research-query once",
    "all__toggle-simulated-logging once",
    "all__toggle-subscriber-updates once",
    "all__trigger-long-running-operation rederivable",
  ]);
  assertEquals(await call(tools, "all__echo", { args: { message: "hi" } }), "Echo: hi");
  assertEquals(
    await call(tools, "all__get-tiny-image"),
    "Here's the image you requested:\n" +
      "[image, image/png, 4,033 bytes: omitted, because a tool result is text only]\n" +
      "The image above is the MCP logo.",
  );
  assertEquals(
    await call(tools, "all__get-structured-content", { args: { location: "New York" } }),
    '{"temperature":33,"conditions":"Cloudy","humidity":82}',
  );
  assertStringIncludes(
    `${await call(tools, "all__get-resource-links", { args: { count: 1 } })}`,
    "[link to resource demo://resource/dynamic/",
  );
  const visible: string[] = [];
  let signs = 0;
  await call(tools, "all__trigger-long-running-operation", {
    args: { duration: 0.2, steps: 3 },
    output: (text) => visible.push(text),
    progress: () => signs++,
  });
  // The last one may arrive after the result.
  assertEquals([visible.slice(0, 2), signs >= 2], [["1 of 3\n", "2 of 3\n"], true]);
});

Deno.test("server-everything: its environment contains only its entry's variables, PATH and the mark", async () => {
  const entry = npmServer("everything", "stdio");
  await using servers = tryServers({ all: { ...entry, env: { ...entry.env, ONLY: "this" } } });
  const env = JSON.parse(`${await call(await servers.tools(), "all__get-env")}`);
  assertMatch(env.TARE_COMMAND, /^\.[0-9a-f-]+$/);
  // Deno sets these for every npm program.
  const { TARE_COMMAND: _, npm_config_user_agent: __, ...rest } = env;
  assertEquals(rest, { ...entry.env, ONLY: "this", PATH: Deno.env.get("PATH") });
});

Deno.test("server-filesystem: files are read and written, and refusals are errors", async () => {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  {
    await using servers = tryServers({ files: npmServer("filesystem", folder) });
    const tools = await servers.tools();
    const path = join(folder, "a.txt");
    assertEquals(
      await call(tools, "files__write_file", { args: { path, content: "text" } }),
      `Successfully wrote to ${path}`,
    );
    assertEquals(await call(tools, "files__read_text_file", { args: { path } }), "text");
    const refused = await call(tools, "files__read_text_file", { args: { path: "/etc/passwd" } });
    assertEquals(refused, {
      content: `Access denied - path outside allowed directories: /etc/passwd not in ${folder}`,
      error: true,
    });
  }
  await Deno.remove(folder, { recursive: true });
});

Deno.test("server-everything over streamable HTTP: tools and calls work, also after a restart of the server", async () => {
  const first = await httpEverything();
  await using servers = tryServers({ web: { url: first.url } }, { restartMs: 20 });
  const tools = await servers.tools();
  assertEquals(tools.size, 13);
  assertEquals(await call(tools, "web__echo", { args: { message: "hi" } }), "Echo: hi");
  await first[Symbol.asyncDispose]();
  const lost = await call(tools, "web__echo", { args: { message: "hi" } });
  assertMatch(`${Object(lost).content}`, /^Cannot return the result of web__echo: MCP server web was lost/);
  await using _second = await httpEverything(first.port);
  for (;;) {
    const answer = await call(tools, "web__echo", { args: { message: "again" } });
    if (answer === "Echo: again") break;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assertEquals([...(await servers.tools()).values()], [...tools.values()]);
});
