// Ctrl-C in `ask` at a terminal: the turn always ends, and the user is notified.
import { assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl } from "@std/path";
import type { Model } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { agentHandler } from "@tare/server";
import { memoryStore } from "@tare/session/sqlite";
import { cases } from "../cases.ts";
import { LINUX, needs } from "../needs.ts";
import { openTerminal, type Terminal } from "../pseudo_terminal.ts";

const ROOT = fromFileUrl(new URL("../..", import.meta.url));
const DIRECTLY = `${Deno.execPath()} run -A packages/cli/ask.ts Hello`;
const AS_A_TASK = `${Deno.execPath()} task ask Hello`;
const BY_NPX = "npx -y deno@2.9.6 task ask Hello";

const endless: Model = async function* ({ signal }) {
  yield { type: "text_delta", text: "Well, " };
  const { promise, resolve } = Promise.withResolvers<void>();
  signal.addEventListener("abort", () => resolve());
  await promise;
};

/** Starts a server whose turns never end. A turn request waits for `letIn`. */
function serve(letIn: () => Promise<void> = () => Promise.resolve()) {
  const agent = agentHandler({
    models: {
      defaultModel: "endless",
      model: () => endless,
      profile: profileNamed("openai"),
      windowTokens: 100_000,
      countTokens: () => Promise.resolve((text) => text.length),
    },
    tools: [],
    store: memoryStore(),
  });
  const requests: string[] = [];
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
    const path = new URL(request.url).pathname;
    requests.push(path.split("/").at(-1)!);
    if (path.endsWith("/turns")) await letIn();
    return await agent.fetch(request);
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    port: String(server.addr.port),
    requests,
    async close() {
      await agent.close();
      await server.shutdown();
    },
  };
}

async function endsOf(url: string): Promise<string[]> {
  const { sessions: [{ id }] } = await (await fetch(`${url}/tare/v1/sessions`)).json();
  const events = await (await fetch(`${url}/tare/v1/sessions/${id}/events`)).text();
  return [...events.matchAll(/"type":"turn_end","reason":"(\w+)"/g)].map(([, reason]) => reason!);
}

/** Opens a shell at a terminal: each command has its own process group. */
async function openShell(port: string): Promise<Terminal> {
  const env = { PS1: "ready> ", TARE_PORT: port, TARE_HOST: "", TARE_TOKEN: "", NO_COLOR: "1" };
  const shell = openTerminal(["/bin/sh", "-i"], { cwd: ROOT, env });
  await shell.shows(/ready> /);
  return shell;
}

for (
  const [how, command, times] of [["", DIRECTLY, 2], ["a task", AS_A_TASK, 1], ["npx", BY_NPX, 1]] as const
) {
  Deno.test({ ...needs(LINUX, `Ctrl-C: in ask it always cancels the turn, ${how}`) }, async () => {
    for (let time = 0; time < cases(times); time++) {
      const server = serve();
      const shell = await openShell(server.port);
      shell.type(`${command}\r`);
      await shell.shows(/Well,/);
      shell.type("\x03");
      await shell.shows(
        /Cancelling the turn …[^]*! The turn was cancelled\.[^]*ready> /,
      );
      shell.type("echo ended with $?; exit\r");
      assertMatch(await shell.shows(/ended with \d+/), /ended with 130/);
      await shell.ended;
      assertEquals(await endsOf(server.url), ["cancelled"]);
      await server.close();
    }
  });

  Deno.test(
    { ...needs(LINUX, `Ctrl-C: while ask's request is pending it cancels the turn, ${how}`) },
    async () => {
      const arrived = Promise.withResolvers<void>();
      const gate = Promise.withResolvers<void>();
      const server = serve(() => {
        arrived.resolve();
        return gate.promise;
      });
      const shell = await openShell(server.port);
      shell.type(`${command}\r`);
      await arrived.promise;
      shell.type("\x03");
      await shell.shows(/Cancelling the turn …/);
      gate.resolve();
      await shell.shows(/! The turn was cancelled\.[^]*ready> /);
      shell.type("exit\r");
      await shell.ended;
      assertEquals(server.requests, ["sessions", "turns", "cancel"]);
      assertEquals(await endsOf(server.url), ["cancelled"]);
      await server.close();
    },
  );
}

Deno.test({ ...needs(LINUX, "Ctrl-C: closing the terminal cancels ask's turn too") }, async () => {
  const server = serve();
  const shell = await openShell(server.port);
  shell.type(`exec ${DIRECTLY}\r`);
  await shell.shows(/Well,/);
  Deno.kill(shell.pid, "SIGHUP");
  await shell.ended;
  assertEquals(await endsOf(server.url), ["cancelled"]);
  await server.close();
});
