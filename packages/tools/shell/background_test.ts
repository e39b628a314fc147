import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { ToolContext } from "@tare/messages";
import { BackgroundCommands, backgroundTool } from "./background.ts";
import { shellTool, type ShellToolOptions } from "./shell_tool.ts";
import { call, callError, callOk, context, cutOff, makeWorkspace, type Workspace } from "../fixture_test.ts";
import { sandboxOf } from "../sandbox/sandbox_fixture_test.ts";
import { BUBBLEWRAP, needs } from "../../../tests/needs.ts";

async function withTools(
  work: (tools: {
    readonly ws: Workspace;
    readonly commands: BackgroundCommands;
    readonly start: (command: string, given?: ToolContext) => Promise<string>;
    readonly shell: ReturnType<typeof shellTool>;
    readonly look: ReturnType<typeof backgroundTool>;
  }) => Promise<void>,
  options: (ws: Workspace) => Partial<ShellToolOptions> | Promise<Partial<ShellToolOptions>> = () => ({}),
): Promise<void> {
  await using ws = await makeWorkspace();
  const commands = new BackgroundCommands();
  const shell = shellTool({ workspace: ws.root, background: commands, ...await options(ws) });
  const start = async (command: string, given = context) => {
    const { content, error } = await call(shell, { command, background: true }, given);
    assertEquals(error, false, content);
    return /^bg_[0-9a-f]{6}/.exec(content)![0];
  };
  try {
    await work({ ws, commands, start, shell, look: backgroundTool(commands) });
  } finally {
    await commands.close();
  }
}

const timeless = (text: string) => text.replaceAll(/\d+ s( so far)?/g, "N s$1");

Deno.test("background returns the new output of a command, and waits for it", async () => {
  await withTools(async ({ ws, start, look }) => {
    await new Deno.Command("mkfifo", { args: [ws.at("go")] }).output();
    const name = await start("echo ready; read -r word < go; echo $word; exit 3");
    const wait = { name, wait_ms: 60_000 };
    assertEquals(
      timeless(await callOk(look, { ...wait, until: "ready" })).replace(
        "6 bytes of new output\nready\n",
        "no new output",
      ),
      `${name} runs, N s so far; no new output`,
    );
    await Deno.writeTextFile(ws.at("go"), "on\n");
    assertEquals(
      timeless(await callOk(look, wait)),
      `${name} ended: exit code 3 after N s; 3 bytes of new output\non\n`,
    );
    assertEquals(
      await callError(look, { name }),
      `Cannot read the output of "${name}": there is no such command: its end was reported already, or it ended with its server. None runs.`,
    );
  });
});

Deno.test("the end of a background command is reported once, with the next result or before the next turn", async () => {
  await withTools(async ({ ws, commands, start, shell, look }) => {
    for (const pipe of ["a", "b"]) await new Deno.Command("mkfifo", { args: [ws.at(pipe)] }).output();
    const [a, b] = [await start("cat a; exit 1"), await start("cat b")];
    await Deno.writeTextFile(ws.at("a"), "said");
    await commands.find("", a).ended;
    assertEquals(
      timeless(await callOk(shell, { command: "true" })),
      `exit code 0; no output\n\n[${a} ended: exit code 1 after N s.]`,
    );
    assertEquals(await callOk(shell, { command: "true" }), "exit code 0; no output");
    await Deno.writeTextFile(ws.at("b"), "");
    await commands.find("", b).ended;
    assertEquals(timeless(commands.news("", [b])!), `${b} ended: exit code 0 after N s.`);
    assertEquals(commands.news("", [b]), undefined);
    assertStringIncludes(await callOk(look, { name: a }), "4 bytes of new output\nsaid");
  });
});

Deno.test("stopping a command or the server ends all its processes", async () => {
  await withTools(async ({ ws, commands, start, look }) => {
    await new Deno.Command("mkfifo", { args: [ws.at("alive")] }).output();
    const held = () => Deno.open(ws.at("alive")).then((pipe) => new Response(pipe.readable).text());
    const begin = async () => {
      const name = await start("exec 3>alive; echo ready; sleep 1000 & sleep 1000");
      await callOk(look, { name, wait_ms: 60_000, until: "ready" });
      return name;
    };
    const first = held();
    const name = await begin();
    assertEquals(
      timeless(await callOk(look, { name, stop: true })),
      `${name} ended: stopped after N s; no new output`,
    );
    assertEquals(await first, "");
    const second = held();
    await begin();
    await commands.close();
    assertEquals(await second, "");
  });
});

Deno.test("sessions have only their own commands, at most four, and a deleted one has none", async () => {
  await withTools(async ({ ws, commands, start, shell, look }) => {
    await new Deno.Command("mkfifo", { args: [ws.at("never")] }).output();
    const other = { ...context, session: "other" };
    const names: string[] = [];
    for (let at = 0; at < 4; at++) names.push(await start("cat never"));
    assertEquals(
      await callError(shell, { command: "cat never", background: true }),
      `Cannot run the command: ${names.join(", ")} run in the background, of at most 4. Stop one first.`,
    );
    const foreign = await start("cat never", other);
    assertStringIncludes(await callError(look, { name: foreign }), `Commands: ${names.join(", ")}.`);
    await commands.end("");
    assertStringIncludes(await callError(look, { name: names[0]! }), "None runs.");
    assertMatch((await call(look, { name: foreign, stop: true }, other)).content, /ended: stopped/);
  });
});

Deno.test("news() reports commands that ended with their server", () => {
  const commands = new BackgroundCommands();
  assertEquals(commands.news("s", []), undefined);
  assertEquals(
    commands.news("s", ["bg_00000a"]),
    "bg_00000a ended or is unreachable, because its server ended. Its output since the last call is lost.",
  );
});

Deno.test(
  needs(
    BUBBLEWRAP,
    "in the sandbox the ports of a command in the background are reached sandbox_of it, and nowhere else",
  ),
  async () => {
    const serve =
      'perl -MIO::Socket::INET -e \'$s = IO::Socket::INET->new(LocalAddr => "127.0.0.1", LocalPort => 8080, ' +
      'Listen => 5) or die; $| = 1; print "listens\\n"; while ($c = $s->accept) { print $c "hello\\n"; close $c }\'';
    const ask = "bash -c 'exec 3<>/dev/tcp/127.0.0.1/8080; cat <&3' 2>/dev/null || echo refused";
    await withTools(async ({ ws, start, shell, look }) => {
      const name = await start(serve);
      await callOk(look, { name, wait_ms: 60_000, until: "listens" });
      assertEquals(
        await callOk(shell, { command: ask, sandbox_of: name }),
        "exit code 0; 6 bytes of output\nhello\n",
      );
      assertEquals(await callOk(shell, { command: ask }), "exit code 0; 8 bytes of output\nrefused\n");
      const odd = "printf '%s\\n' 'ä \"$1\" \\n'; echo two >&2; exit 7";
      assertEquals(
        await callOk(shell, { command: odd, sandbox_of: name }),
        'exit code 7; 15 bytes of output\nä "$1" \\n\ntwo\n',
      );
      await new Deno.Command("mkfifo", { args: [ws.at("alive")] }).output();
      const held = Deno.open(ws.at("alive")).then((pipe) => new Response(pipe.readable).text());
      const long = "exec 3>alive; echo first; sleep 1000 & sleep 1000";
      const { content, timeoutMs } = await cutOff(shell, { command: long, sandbox_of: name });
      assertStringIncludes(content, `its time limit of ${timeoutMs / 1000} s was over`);
      assertMatch(content, /6 bytes of output\nfirst\n$/);
      assertEquals(await held, "");
      assertStringIncludes(
        await callError(shell, { command: "true", sandbox_of: name, outside: "x" }),
        "can't run in another one's sandbox",
      );
      const whole = await callOk(shell, {
        command: "head -c 200000 /dev/zero | tr '\\0' x",
        sandbox_of: name,
      });
      assert(whole.startsWith("exit code 0; 200000 bytes of output\nxxx"), whole.slice(0, 100));
      assertMatch(await callOk(look, { name, stop: true }), /ended: stopped/);
      assertStringIncludes(
        await callError(shell, { command: "true", sandbox_of: name }),
        "there is no such command",
      );
    }, async ({ root }) => {
      const made = await sandboxOf(root);
      return "by" in made ? { sandbox: made } : {};
    });
  },
);
