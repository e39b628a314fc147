import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { startProcess } from "../../packages/app/server_process_fixture_test.ts";

const ASK = fromFileUrl(new URL("../../packages/cli/ask.ts", import.meta.url));

const ENV =
  "TARE_HOST,TARE_PORT,TARE_TOKEN,TARE_DATA,TARE_WORKSPACE,HOME,XDG_DATA_HOME,XDG_CONFIG_HOME,LOCALAPPDATA,INIT_CWD";

/** Runs ask.ts with the permissions of `deno task ask`. */
async function ask(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  piped?: string | Uint8Array<ArrayBuffer>,
) {
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--allow-net", "--allow-read", `--allow-env=${ENV}`, ASK, ...args],
    env: { NO_COLOR: "1", TARE_HOST: "", TARE_PORT: "", TARE_TOKEN: "", ...env },
    stdin: piped === undefined ? "null" : "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  // The command may close the pipe early.
  if (piped !== undefined) await new Blob([piped]).stream().pipeTo(child.stdin).catch(() => {});
  const { code, stdout, stderr } = await child.output();
  // This line is printed if the machine is slow.
  const err = new TextDecoder().decode(stderr).replace("Reading standard input, up to its end …\n", "");
  return { code, out: new TextDecoder().decode(stdout), err };
}

Deno.test("ask.ts prints a turn, continues a session, and prints events as JSON", async () => {
  const folder = await Deno.makeTempDir();
  await Deno.mkdir(join(folder, "workspace"));
  const server = await startProcess([
    ...["--port", "0", "--workspace", join(folder, "workspace")],
    ...["--data", join(folder, "data")],
  ], { TARE_TOKEN: "secret" });
  const { port } = new URL(server.url);
  const env = { TARE_PORT: port, TARE_TOKEN: "secret" };
  const first = await ask(["Hello?"], env);
  assertEquals(first.code, 0, first.err);
  // A pipe gets only the answer.
  assertMatch(first.out, /^I am an offline demo model: [^]*[^\n]\n$/);
  assertEquals(first.out.includes("── step"), false);
  const id = /^session (\S+)\n/.exec(first.err)![1]!;
  assertMatch(first.err, /\n[^]*\d+ calls? · .*\n$/);
  const second = await ask(["--json", "--session", id, "--url", server.url, "And", "now?"], env);
  assertEquals([second.code, second.err], [0, `session ${id}\n`]);
  const events = second.out.trim().split("\n").map((line) => JSON.parse(line));
  assertEquals(events[0], { type: "turn_start", input: "And now?" });
  assertEquals([events.at(-1).type, events.at(-1).reason], ["turn_end", "completed"]);

  // Piped text is appended or is the message; long input is truncated, binary input rejected.
  const sent = async (...given: Parameters<typeof ask>) => {
    const { code, out, err } = await ask(...given);
    return [
      code,
      code === 0 ? JSON.parse(out.split("\n")[0]!).input : out,
      err.replace(/^session .*\n/m, ""),
    ];
  };
  assertEquals(await sent(["--json", "Review."], env, "+a\n"), [
    0,
    "Review.\n\nFrom standard input:\n\n```\n+a\n```",
    "",
  ]);
  assertEquals(await sent(["--json"], env, "Hello?\n"), [0, "Hello?\n", ""]);
  const [huge, stdout, stderr] = await sent(["--json", "Review."], env, "x".repeat(300_000));
  assertEquals([huge, stdout.length, stderr], [
    0,
    262_144 + "Review.\n\nFrom standard input (only its first 262144 characters):\n\n```\n\n```".length,
    "Standard input is too long: only its first 262144 characters are sent.\n",
  ]);
  const binary = await ask(["Review."], env, new Uint8Array([0x50, 0x4b, 0, 0]));
  assertEquals([binary.code, binary.out], [1, ""]);
  assertStringIncludes(binary.err, "Cannot send standard input: it isn't UTF-8 text.");
  await Deno.writeFile(join(folder, "shot.png"), new Uint8Array([1]));
  assertEquals(await sent(["--json", "See @shot.png"], { ...env, INIT_CWD: folder }), [
    0,
    [
      { type: "text", text: "See @shot.png" },
      { type: "image_url", image_url: { url: "data:image/png;base64,AQ==" } },
    ],
    "",
  ]);

  const { err } = await ask(["--effort", "high", "Hello?"], env);
  assertStringIncludes(err, 'Cannot use effort "high": model "demo" has no reasoning effort.');
  const unknown = await ask(["--session", "none", "Hello?"], env);
  assertEquals([unknown.code, unknown.err], [
    1,
    "Cannot find session none: there is no such session.\n",
  ]);
  const uninvited = await ask(["Hello?"], { ...env, TARE_TOKEN: "" });
  assertEquals(uninvited.code, 1);
  assertStringIncludes(uninvited.err, "Unauthorized: send a server key");
  await server.end("SIGTERM");
  const closed = await ask(["Hello?"], env);
  assertEquals([closed.code, closed.err], [
    1,
    `Cannot reach the server at http://127.0.0.1:${port}. Start it with tare start, or deno task start.\n`,
  ]);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("ask.ts prints its usage without a message", async () => {
  const { code, err } = await ask([]);
  assertEquals(code, 2);
  assertStringIncludes(err, 'deno task ask [--session ID] [--effort LEVEL] [--json] "message"');
  assertEquals((await ask(["--help"])).code, 0);
});
