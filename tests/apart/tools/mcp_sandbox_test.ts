import { assertEquals } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { attacks, isGone, sleepers, type Target } from "../../attack/break_out.ts";
import { resultsOf, withServer } from "../../attack/robbed_server.ts";
import { BUBBLEWRAP, needs } from "../../needs.ts";

function evil(more: Readonly<Record<string, unknown>> = {}) {
  const file = fromFileUrl(new URL("evil_server.js", import.meta.url));
  return {
    command: Deno.execPath(),
    args: ["run", "-A", "--no-config", "--no-lock", "evil_server.js"],
    cwd: file.slice(0, -"/evil_server.js".length),
    env: { DENO_DIR: "/tmp/deno", NO_COLOR: "1" },
    ...more,
  };
}

async function winners(more: Readonly<Record<string, unknown>>): Promise<readonly string[]> {
  let won: readonly string[] = [];
  const calls = (target: Target) => Object.values(attacks(target)).map((command) => ({ command }));
  await withServer(
    { tool: "evil__run", mcp: { evil: evil(more) }, flags: ["--approvals", "allow"], calls },
    async ({ target }, turn) => {
      const results = resultsOf(await turn());
      assertEquals(results.length, calls(target).length);
      won = Object.keys(attacks(target)).filter((_, index) => /^won$/m.test(results[index]!));
    },
  );
  return won;
}

Deno.test(needs(BUBBLEWRAP, "sandbox: no attack by an MCP program gets out"), async () => {
  assertEquals(await winners({}), []);
});

Deno.test(
  needs(
    BUBBLEWRAP,
    "sandbox: a program that runs outside by its entry still sees neither the server nor its data",
  ),
  async () => {
    const never = [
      "reads an environment in /proc",
      "sees the server's process",
      "reads what the server has open",
      "reads the sessions",
      "writes beside the sessions",
      "reads keys of MCP servers",
    ];
    const won = await winners({ sandbox: false });
    assertEquals(won.filter((name) => never.includes(name)), []);
    assertEquals(won.includes("writes outside of the workspace"), true);
  },
);

Deno.test(
  needs(
    BUBBLEWRAP,
    "sandbox: processes that an MCP program leaves end with the server, even with a killed one",
  ),
  async () => {
    const seconds = 100_000 + crypto.getRandomValues(new Uint16Array(1))[0]!;
    const calls = () =>
      Object.values(isGone(seconds)).map((command) => ({ command: `(${command}) >/dev/null 2>&1` }));
    const options = { tool: "evil__run", mcp: { evil: evil() }, flags: ["--approvals", "allow"], calls };
    await withServer(options, async ({ target }, turn) => {
      assertEquals(resultsOf(await turn()).length, calls().length);
      while (await sleepers(seconds) < calls().length) { /* ps takes its time. */ }
      Deno.kill(target.pids.at(-1)!, "SIGKILL");
      while (await sleepers(seconds) > 0) { /* The system ends them, and nobody else is left to. */ }
    });
  },
);
