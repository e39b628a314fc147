import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import { Keys } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { workspaceTools } from "@tare/tools";
import { ALLOW_EVERYTHING } from "@tare/server";
import { agent, call, error, refused, scriptedModel, type TestOptions } from "../fixture_test.ts";

async function working(options: (workspace: string) => TestOptions = () => ({})) {
  const workspace = await Deno.realPath(await Deno.makeTempDir());
  const files = {
    ".gitignore": "built\n",
    ".env": "SECRET",
    "README.md": "",
    "a[1].md": "",
    "built/main.js": "",
    "src/main.ts": "",
    "src/parts/Main_menu.ts": "",
    "src/domain.ts": "",
    "private/main.key": "",
  };
  for (const [path, text] of Object.entries(files)) {
    await Deno.mkdir(join(workspace, path, ".."), { recursive: true });
    await Deno.writeTextFile(join(workspace, path), text);
  }
  const handler = agent(scriptedModel([]), { tools: workspaceTools({ workspace }), ...options(workspace) });
  return {
    handler,
    find: async (query: string) => (await call(handler, "GET", `/tare/v1/agent/files${query}`)).body,
    [Symbol.asyncDispose]: () => Deno.remove(workspace, { recursive: true }),
  };
}

Deno.test("fileRoutes() find files by a part of their name or path, without hidden or ignored ones", async () => {
  await using server = await working();
  const { find } = server;
  const page = (...files: string[]) => ({ files, hasMore: false });
  assertEquals(await find(""), page("src/", "a[1].md", "private/", "README.md"));
  assertEquals(
    await find("?search=MAIN"),
    page("src/main.ts", "private/main.key", "src/parts/Main_menu.ts", "src/domain.ts"),
  );
  assertEquals(await find("?search=main&limit=1"), { files: ["src/main.ts"], hasMore: true });
  assertEquals(await find("?search=src%2Fmai"), page("src/main.ts"));
  assertEquals(await find("?search=a[1]"), page("a[1].md"));
  for (const none of ["env", "..%2F", "*", "built%2Fm", "%2Fetc%2Fpasswd"]) {
    assertEquals([none, await find(`?search=${none}`)], [none, page()]);
  }
});

Deno.test("fileRoutes() omit files that a rule denies, and refuse if a rule asks for the tool", async () => {
  await using server = await working((workspace) => ({
    approvals: {
      rules: [{ tool: "*", paths: ["private/**"], decision: "deny" }, ...ALLOW_EVERYTHING],
      workspace,
    },
  }));
  assertEquals(await server.find("?search=main.k"), { files: [], hasMore: false });
  await using asking = await working((workspace) => ({
    approvals: { rules: [{ tool: "list_files", decision: "ask" }], workspace },
  }));
  assertEquals(
    await refused(asking.handler, "GET", "/tare/v1/agent/files"),
    error(501, "not_supported", "Cannot list files: the server's rule for list_files is ask."),
  );
  assertEquals(
    await refused(agent(scriptedModel([])), "GET", "/tare/v1/agent/files"),
    error(501, "not_supported", "Cannot list files: the agent has no tool list_files."),
  );
});

Deno.test("fileRoutes() require a key with access to the agent", async () => {
  const store = memoryStore();
  const keys = new Keys({ store, owners: ["owner-secret"] });
  const made: string[] = [];
  for (const route of ["agent", "gateway"] as const) {
    made.push(await keys.add({ name: route, routes: [route] }));
  }
  await using server = await working(() => ({ store, keys, guests: true }));
  const status = async (key?: string) => {
    const headers = key === undefined ? {} : { authorization: `Bearer ${key}` };
    const response = await server.handler.fetch(
      new Request("http://localhost/tare/v1/agent/files", { headers }),
    );
    await response.body?.cancel();
    return response.status;
  };
  assertEquals(await Promise.all([undefined, "owner-secret", ...made].map(status)), [401, 200, 200, 403]);
});
