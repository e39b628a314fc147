// Commands that read stored sessions while no server runs.
import { assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl } from "@std/path";

const TARE = fromFileUrl(new URL("../../packages/cli/tare.ts", import.meta.url));

Deno.test("spend, doctor and export start a server of the stored sessions for themselves", async () => {
  const home = await Deno.realPath(await Deno.makeTempDir());
  const cwd = `${home}/project/src`;
  await Deno.mkdir(cwd, { recursive: true });
  const unset = ["HOST", "PORT", "TOKEN", "DATA", "WORKSPACE", "MODEL"].map((name) => `TARE_${name}`);
  const env = {
    ...Object.fromEntries(
      [...unset, "INIT_CWD", "OPENAI_API_KEY", "ANTHROPIC_API_KEY"].map((name) => [name, ""]),
    ),
    ...{ XDG_DATA_HOME: `${home}/data`, XDG_CONFIG_HOME: `${home}/config`, HOME: home, NO_COLOR: "1" },
  };
  const tare = async (...args: readonly string[]) => {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      ...{ args: ["run", "-A", "--no-check", TARE, ...args], cwd, env, stdin: "null" },
    }).output();
    const [out = "", err = ""] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
    return { code, out, err };
  };
  assertMatch((await tare("spend")).err, /Cannot find a server for .*: none runs there/);
  const server = new Deno.Command(Deno.execPath(), {
    ...{ args: ["run", "-A", "--no-check", TARE, "start"], cwd: `${home}/project`, env },
    ...{ stdin: "null", stdout: "piped", stderr: "null" },
  }).spawn();
  let greeting = "";
  const reading = server.stdout.pipeThrough(new TextDecoderStream()).getReader();
  while (!greeting.includes("listens on")) greeting += (await reading.read()).value;
  const asked = await tare("ask", "Which files are there?");
  assertEquals(asked.code, 0, asked.err);
  const [, id = ""] = /session (\S+)/.exec(asked.err) ?? [];
  assertEquals((await tare("stop")).code, 0);
  await reading.cancel();
  await server.status;

  const spend = await tare("spend", "--session", id.slice(0, 6));
  assertEquals([spend.code, spend.err], [0, ""]);
  assertMatch(spend.out, /^[\d,]+ cost units for \d calls \(\d without a price\)\.\n/);
  assertMatch((await tare("doctor", "--session", id.slice(0, 6))).out, /^1 session, \d calls: /);
  const exported = await tare("export", id.slice(0, 6));
  assertEquals([exported.code, exported.err], [0, ""]);
  assertMatch(exported.out, /"content":"Which files are there\?"/);
  assertMatch((await tare("stop")).err, /Cannot find a server/);
  await Deno.remove(home, { recursive: true });
});
