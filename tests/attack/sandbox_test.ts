import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { DENO_DIR, resultsOf, withServer } from "./robbed_server.ts";
import type { SessionEvent } from "@tare/server";
import { agentClient } from "../../packages/cli/agent_client.ts";
import { startCommand } from "../../packages/app/server_process_fixture_test.ts";
import { attacks, isGone, processesWith, SECRET, sleepers, type Target } from "./break_out.ts";
import { BUBBLEWRAP, LINUX, needs } from "../needs.ts";

const namesOf = (target: Target) =>
  Object.keys(attacks(target)).filter((name) => name !== "reads keys of MCP servers");

async function winners(flags: readonly string[]): Promise<readonly string[]> {
  let won: readonly string[] = [];
  const calls = (target: Target) => namesOf(target).map((name) => ({ command: attacks(target)[name] }));
  await withServer({ flags, calls }, async ({ target }, turn) => {
    const results = resultsOf(await turn());
    const names = namesOf(target);
    assertEquals(results.length, names.length);
    won = names.filter((_, index) => /^won$/m.test(results[index]!));
  });
  return won;
}

Deno.test(
  needs(BUBBLEWRAP, "sandbox: no attack by a command gets out, and none needs approval"),
  async () => {
    assertEquals(await winners([]), []);
  },
);

Deno.test(needs(BUBBLEWRAP, "sandbox: without one the same attacks succeed"), async () => {
  const names = namesOf({ top: "/", port: 1, pids: [1] });
  const won = await winners(["--sandbox", "off", "--approvals", "allow"]);
  // Only an administrator can do these.
  const rare = ["writes what its next commands are", "reaches the system's settings"];
  assertEquals(won.filter((name) => !rare.includes(name)), names.filter((name) => !rare.includes(name)));
});

Deno.test(
  needs(BUBBLEWRAP, "sandbox: processes that a command leaves end with its call"),
  async () => {
    const seconds = 100_000 + crypto.getRandomValues(new Uint16Array(1))[0]!;
    const calls = () =>
      Object.values(isGone(seconds)).map((command) => ({ command: `${command}; echo left` }));
    await withServer({ calls }, async (_server, turn) => {
      assertEquals(resultsOf(await turn()), calls().map(() => "exit code 0; 5 bytes of output\nleft\n"));
      // The system ends them with the sandbox's first process, and takes a moment for it.
      while (await sleepers(seconds) > 0) { /* ps takes its time. */ }
    });
  },
);

Deno.test(
  needs(
    BUBBLEWRAP,
    "sandbox: a command outside needs approval with its reason, and sees neither the server nor its sessions",
  ),
  async () => {
    const outside = "writes beside the workspace";
    const calls = ({ top, pids, port }: Target) => {
      const all = attacks({ top, pids, port });
      const tried = ["reads the sessions", "sees the server's process", "writes outside of the workspace"];
      const command = tried.map((name) => `(${all[name]}) 2>/dev/null`).join("; ");
      return [{
        command: `umount /proc 2>/dev/null; cat /proc/[0-9]*/environ | grep -ac ${SECRET}; ${command}`,
        outside,
      }];
    };
    await withServer({ calls }, async ({ target, url }, turn) => {
      const events = await turn();
      const pending = events.find((event) => event.type === "approval_requested");
      assertEquals(pending && JSON.parse(pending.arguments), calls(target)[0]);
      const end = events.at(-1);
      assertEquals(end?.type === "turn_end" && end.reason, "approval");
      const client = agentClient(url, SECRET);
      const [session] = await client.listSessions("");
      const { lastEvent: last } = await client.session(session!.id);
      const [approval] = await client.approvals(session!.id);
      await client.answer(session!.id, approval!, { decision: "allow" });
      const results: SessionEvent[] = [];
      for await (const { event } of await client.follow(session!.id, last)) {
        results.push(event);
        if (event.type === "turn_end") break;
      }
      assertEquals(resultsOf(results), ["exit code 0; 6 bytes of output\n0\nwon\n"]);
    });
  },
);

Deno.test(
  needs(
    BUBBLEWRAP,
    "sandbox: the network reaches only the allowed hosts, through a proxy without keys",
  ),
  async () => {
    const ask = (port: number, to: string) => ({
      command:
        `bash -c 'exec 3<>/dev/tcp/127.0.0.1/${port}; printf "CONNECT %s HTTP/1.1\\r\\n\\r\\n" "$0" >&3; head -n 1 <&3' ${to}`,
    });
    const calls = ({ port }: Target) => [
      ask(3128, "other.example:443"),
      ask(3128, `127.0.0.1:${port}`),
      ask(3128, "allowed.invalid:22"),
      // The host doesn't exist, which only the proxy can know.
      ask(3128, "allowed.invalid:443"),
      ask(3128, "below.any.invalid:443"),
      { command: `bash -c 'exec 3<>/dev/tcp/127.0.0.1/${port}' 2>/dev/null || echo refused` },
    ];
    await withServer(
      { flags: ["--allow-domains", "allowed.invalid,*.any.invalid"], calls },
      async (_server, turn) => {
        const lines = resultsOf(await turn()).map((result) => result.trim().split("\n").at(-1));
        const forbidden = "HTTP/1.1 403 Forbidden\r";
        const unknown = "HTTP/1.1 502 Bad Gateway\r";
        assertEquals(lines.map((line) => `${line}`.trim()), [
          ...[forbidden, forbidden, forbidden, unknown, unknown].map((line) => line.trim()),
          "refused",
        ]);
        const proxies = await processesWith("allowed.invalid *.any.invalid");
        const environments = await Promise.all(
          proxies.map((pid) => Deno.readTextFile(`/proc/${pid}/environ`)),
        );
        assertEquals(environments.map((text) => text.includes(SECRET)), [false]);
      },
    );
  },
);

Deno.test(
  needs(LINUX, "sandbox: with or without one the server's process has no key in its environment"),
  async () => {
    await withServer({ flags: ["--sandbox", "off"], calls: () => [] }, async ({ target }) => {
      const environments = await Promise.all(target.pids.map(async (pid) => {
        const command = await Deno.readTextFile(`/proc/${pid}/cmdline`);
        return command.includes("main.ts") ? [await Deno.readTextFile(`/proc/${pid}/environ`)] : [];
      }));
      assertEquals(environments.flat().map((text) => text.includes(SECRET)), [false]);
    });
  },
);

async function bareFolder(): Promise<string> {
  const folder = await Deno.makeTempDir();
  for (const name of ["ps", "sh"]) {
    const { stdout } = await new Deno.Command("sh", { args: ["-c", `command -v ${name}`] }).output();
    await Deno.symlink(new TextDecoder().decode(stdout).trim(), join(folder, name));
  }
  return folder;
}

Deno.test(
  needs(
    LINUX,
    "sandbox: if none can be created, a warning appears and commands need approval; strict doesn't start",
  ),
  async () => {
    const PATH = await bareFolder();
    await withServer(
      { env: { PATH }, calls: () => [{ command: "echo a" }] },
      async ({ url, greeting }, turn) => {
        const headers = { authorization: `Bearer ${SECRET}` };
        const { sandbox } = await (await fetch(`${url}/tare/v1/agent`, { headers })).json();
        assertEquals(sandbox, { why: "bubblewrap (bwrap) is not installed", domains: [] });
        const end = (await turn()).at(-1);
        assertEquals(end?.type === "turn_end" && end.reason, "approval");
        assertStringIncludes(
          await greeting(),
          "\nsandbox    none, because bubblewrap (bwrap) is not installed: commands run with your permissions\n",
        );
      },
    );
    const workspace = await Deno.makeTempDir();
    const args = [
      "--port",
      "0",
      "--workspace",
      workspace,
      "--data",
      join(workspace, "data"),
      "--sandbox",
      "strict",
    ];
    const { code, stderr } = await startCommand(args, { PATH }).output();
    assertEquals([code, new TextDecoder().decode(stderr)], [
      1,
      "Cannot start: TARE_SANDBOX is strict, but there is no sandbox, because bubblewrap (bwrap) is not installed.\n",
    ]);
    const home = { PATH: Deno.env.get("PATH")!, HOME: workspace, DENO_DIR };
    const inHome = await startCommand([...args, "--data", `${workspace}-data`], home).output();
    assertMatch(
      new TextDecoder().decode(inHome.stderr),
      /Cannot start: TARE_SANDBOX is strict.*is the home folder/,
    );
    await Deno.remove(workspace, { recursive: true });
    await Deno.remove(PATH, { recursive: true });
  },
);
