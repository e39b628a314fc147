import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { serverAddress } from "../../packages/cli/agent_client.ts";
import { startCommand, startProcess } from "../../packages/app/server_process_fixture_test.ts";
import { findServer } from "../../packages/cli/server/noted_server.ts";

/** Deno's cache, independent of the home folder. */
const INFO = await new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output();
const { denoDir: DENO_DIR } = JSON.parse(new TextDecoder().decode(INFO.stdout));

/** Runs a test with a home folder and projects. */
async function withHome(
  use: (home: string, env: Readonly<Record<string, string>>) => Promise<void>,
): Promise<void> {
  const home = await Deno.realPath(await Deno.makeTempDir());
  try {
    for (const name of ["a/deep/er", "b", "c"]) await Deno.mkdir(join(home, name), { recursive: true });
    await use(home, { DENO_DIR, HOME: home, XDG_DATA_HOME: join(home, "data"), LOCALAPPDATA: home });
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

/** Starts a server for a folder, on a default port. */
function startIn(folder: string, env: Readonly<Record<string, string>>) {
  return startProcess([], { ...env, INIT_CWD: folder });
}

Deno.test("serverAddress() returns the server of the folder or its nearest parent, and no other", () =>
  withHome(async (home, env) => {
    const at = (folder: string, more: Readonly<Record<string, string>> = {}) => {
      const all: Readonly<Record<string, string>> = { ...env, INIT_CWD: join(home, folder), ...more };
      return serverAddress((name) => all[name]);
    };
    const none = await assertRejects(() => at("a"), Error);
    assertEquals(none.message.split("\n"), [
      `Cannot find a server for ${home}/a: none runs there or for a parent folder.`,
      "Start one in the folder with tare start, or deno task start; or name its address with --url, or TARE_HOST and TARE_PORT.",
    ]);
    const a = await startIn(join(home, "a"), env);
    const b = await startIn(join(home, "b"), env);
    assertEquals(a.url === b.url, false);
    const inA = await at("a");
    const inB = await at("b");
    assertEquals([inA.url, inB.url], [a.url, b.url]);
    assertEquals(inA.token === inB.token, false);
    assertEquals(await at("a/deep/er"), inA);
    assertEquals(await at("c", { TARE_WORKSPACE: "../b" }), inB);
    const workspaceOf = async ({ url, token }: typeof inA) => {
      const headers = { authorization: `Bearer ${token}` };
      return (await (await fetch(`${url}/tare/v1/agent`, { headers })).json()).workspace;
    };
    assertEquals(await Promise.all([inA, inB].map(workspaceOf)), [join(home, "a"), join(home, "b")]);
    const elsewhere = await assertRejects(() => at("c"), Error);
    assertEquals(elsewhere.message.split("\n").slice(2), [
      "Running servers of other folders:",
      `  ${a.url}  ${home}/a`,
      `  ${b.url}  ${home}/b`,
    ]);
    await b.end("SIGTERM");
    await assertRejects(() => at("b"), Error, `Cannot find a server for ${home}/b`);
    await a.end("SIGTERM");
  }));

Deno.test("findServer() ignores a killed server and other programs on its port, and respects TARE_DATA", () =>
  withHome(async (home, env) => {
    const data = join(home, "kept");
    // Another program takes its port later, so it can't be the default port.
    const server = await startProcess(["--port", "0"], {
      ...env,
      TARE_DATA: data,
      INIT_CWD: join(home, "a"),
    });
    const find = () => findServer({ ...env, TARE_DATA: "kept", INIT_CWD: home });
    const { folder, url, instance } = await find();
    assertEquals([folder, url], [join(home, "a"), server.url]);
    assertEquals(await (await fetch(`${url}/health`)).json(), { status: "ok", instance });
    await server.end("SIGTERM");
    await Deno.writeTextFile(join(data, "server.json"), JSON.stringify({ folder, url, instance, pid: 1 }));
    await assertRejects(find, Error, "Cannot find a server with the data folder kept: none runs.");
    const { hostname, port } = new URL(url);
    await using _other = Deno.serve(
      { hostname, port: Number(port), onListen() {} },
      () => Response.json({ status: "ok", instance: "another" }),
    );
    await assertRejects(find, Error, "Cannot find a server with the data folder kept: none runs.");
  }));

Deno.test("start.ts fails if the given port is taken", () =>
  withHome(async (home, env) => {
    await using taken = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => new Response());
    const port = String(taken.addr.port);
    const { code, stderr } = await startCommand([], { ...env, INIT_CWD: home, TARE_PORT: port }).output();
    assertEquals(code, 1);
    assertStringIncludes(new TextDecoder().decode(stderr), `TARE_PORT is ${port}: another program listens`);
  }));
