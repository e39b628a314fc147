// Asserts what a terminal of 40, 80 and 100 columns shows.
import { assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { type AssistantMessage, contentText, type Model } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { agentHandler, type AgentOptions, ALLOW_EVERYTHING } from "@tare/server";
import { memoryStore } from "@tare/session/sqlite";
import { workspaceTools } from "@tare/tools";
import { LINUX, needs } from "./needs.ts";
import { openTerminal } from "./pseudo_terminal.ts";
import { screenRows } from "./terminal_screen.ts";

const ROOT = fromFileUrl(new URL("..", import.meta.url));
const PROMPT = new RegExp("› \u001b\\[3G$");

function calls(...named: readonly (readonly [name: string, args: object])[]): AssistantMessage {
  const tool_calls = named.map(([name, args], at) => ({
    ...{ id: `${name}${at}`, type: "function", function: { name, arguments: JSON.stringify(args) } } as const,
  }));
  return { role: "assistant", content: null, tool_calls };
}

/** Starts a server whose model answers the message "go" by these steps, and others by an echo. */
function serve(workspace: string, steps: readonly AssistantMessage[], approvals: AgentOptions["approvals"]) {
  const model: Model = async function* ({ messages }) {
    const start = messages.findLastIndex(({ role }) => role === "user");
    const question = contentText(messages[start]!.content);
    const made = messages.slice(start).filter(({ role }) => role === "assistant").length;
    const content = `You said ${question}.`;
    const message = question === "go" ? steps[made]! : { role: "assistant", content } as const;
    // Every piece of the reply arrives on its own.
    for (const text of contentText(message.content).match(/\S+\s*/g) ?? []) {
      yield { type: "text_delta", text };
    }
    const finishReason = message.tool_calls ? "tool_calls" : "stop";
    const usage = { promptTokens: 12_000, cachedTokens: 8_000, outputTokens: 120 };
    yield { type: "completed", message, finishReason, usage };
  };
  const agent = agentHandler({
    models: {
      ...{ defaultModel: "echo", model: () => model, profile: profileNamed("openai"), windowTokens: 100_000 },
      countTokens: () => Promise.resolve((text) => text.length),
    },
    ...{ approvals, tools: workspaceTools({ workspace }), workspace: { folder: workspace } },
    store: memoryStore(),
  });
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    (request) => agent.fetch(request),
  );
  return {
    env: { TARE_PORT: String(server.addr.port), TARE_HOST: "", TARE_TOKEN: "", NO_COLOR: "" },
    url: `http://127.0.0.1:${server.addr.port}/tare/v1/sessions`,
    async [Symbol.asyncDispose]() {
      await agent.close();
      await server.shutdown();
    },
  };
}

const CHAT = [Deno.execPath(), "run", "-A", "--no-check", `${ROOT}packages/cli/terminal/chat.ts`];

/** Answers "go" in a chat. Returns the screen between the first two prompts, without redrawn rows. */
async function screen(
  columns: number,
  steps: readonly AssistantMessage[],
  { answers = [], approvals = { rules: ALLOW_EVERYTHING } }: {
    readonly answers?: readonly string[];
    readonly approvals?: AgentOptions["approvals"];
  } = {},
): Promise<readonly string[]> {
  const workspace = await Deno.realPath(await Deno.makeTempDir());
  await Deno.writeTextFile(`${workspace}/a.txt`, "one\ntwo\nthree\n");
  await using server = serve(workspace, steps, approvals);
  await using chat = openTerminal(CHAT, { cwd: workspace, env: server.env, columns });
  await chat.shows(PROMPT);
  let from = chat.text().length;
  chat.type("go\r");
  for (const answer of answers) {
    await chat.shows(/y\/a\/n › [^›]*$/, from);
    from = chat.text().length;
    chat.type(`${answer}\r`);
  }
  await chat.shows(/cached\)[^]*› \S+$/, from);
  const rows = await screenRows(chat.text(), { columns });
  chat.type("\x04");
  assertEquals((await chat.ended).code, 0);
  await Deno.remove(workspace, { recursive: true });
  assertEquals(rows.filter((row) => row.startsWith("⏎")), []);
  const named = rows.map((row) => row.replaceAll(workspace, "/w"));
  return named.slice(named.indexOf("› go") + 1, -1);
}

const REPLY: AssistantMessage = {
  role: "assistant",
  content: `The **slowest** test is \`cart.test.ts\`, with 3.1 s: it waits for a real clock.

1. 日本語の文字は幅が二つです、だから折り返しは正しくなければなりません。 😀 done
   - nested item with some more words
> A quotation that is longer than forty columns.

| Test | Seconds | Why |
|---|--:|---|
| cart.test.ts | 3.1 | it waits for a real clock |
| user.test.ts | 0.2 | database |

\`\`\`ts
// A fake clock
export const clock = (now = Date.now): string => String(now());
\`\`\`
`,
};

Deno.test(
  { ...needs(LINUX, "chat: a reply is wrapped at words, with tables and code, at any width") },
  async () => {
    assertEquals(await screen(40, [REPLY]), [
      "",
      "The slowest test is cart.test.ts, with",
      "3.1 s: it waits for a real clock.",
      "",
      "1. 日本語の文字は幅が二つです、だから折",
      "   り返しは正しくなければなりません。",
      "   😀 done",
      "   • nested item with some more words",
      "│ A quotation that is longer than forty",
      "│ columns.",
      "",
      "Test         │ Seconds │ Why",
      "─────────────┼─────────┼───────────────",
      "cart.test.ts │     3.1 │ it waits for a",
      "             │         │ real clock",
      "user.test.ts │     0.2 │ database",
      "",
      "  // A fake clock",
      "  export const clock = (now =",
      "    Date.now): string => String(now());",
      "",
      "4,800 cost units · 1 call · 12,000",
      "  prompt tokens (67 % cached) · 120",
      "  output",
      "",
    ]);
    const wide = await screen(100, [REPLY]);
    assertEquals(wide.slice(1, 4), [
      "The slowest test is cart.test.ts, with 3.1 s: it waits for a real clock.",
      "",
      "1. 日本語の文字は幅が二つです、だから折り返しは正しくなければなりません。 😀 done",
    ]);
    assertEquals(wide.at(-2), "4,800 cost units · 1 call · 12,000 prompt tokens (67 % cached) · 120 output");
  },
);

const WORK = [
  calls(
    ["read_file", { path: "a.txt", start_line: 1, end_line: 2 }],
    ["read_file", { path: "missing.txt" }],
  ),
  calls(["shell", { command: "seq 1 40; exit 3" }]),
  calls(["edit_file", { path: "a.txt", old_text: "two", new_text: "zwei" }]),
  { role: "assistant", content: "Done." },
] as const;

Deno.test({ ...needs(LINUX, "chat: calls are words, and long outputs show their ends") }, async () => {
  const rows = await screen(80, WORK);
  assertEquals(rows.toSorted().filter((row) => /^[●✗]/.test(row)), [
    "● Edit a.txt · +1 −1",
    "● Read a.txt (1–2) · 3 lines",
    "✗ Read missing.txt · error",
    "✗ Run seq 1 40; exit 3 · exit code 3",
  ]);
  const at = rows.indexOf("✗ Run seq 1 40; exit 3 · exit code 3");
  assertEquals(rows.slice(at), [
    "✗ Run seq 1 40; exit 3 · exit code 3",
    ...["  │ 1", "  │ 2", "  │ 3", "  │ … 32 more lines; /output shows all"],
    ...["  │ 36", "  │ 37", "  │ 38", "  │ 39", "  │ 40"],
    "● Edit a.txt · +1 −1",
    ...["  @@ -1,3 +1,3 @@", "   one", "  -two", "  +zwei", "   three"],
    "",
    "Done.",
    "",
    "19,200 cost units · 4 calls · 48,000 prompt tokens (67 % cached) · 480 output",
    "",
  ]);
});

Deno.test(
  { ...needs(LINUX, "chat: an approval card with diff and deadline, and one cost line per turn") },
  async () => {
    const rows = await screen(40, WORK.slice(2), { answers: ["y"], approvals: {} });
    assertEquals(rows, [
      "",
      "▌ Approval needed",
      "▌ Edit a.txt (+1 −1)",
      ...["▌ @@ -1,3 +1,3 @@", "▌  one", "▌ -two", "▌ +zwei", "▌  three"],
      "▌ Writes /w/a.txt",
      "▌ Denied without an answer in 24 hours.",
      "▌ y = yes, a = always in this session,",
      "▌ n = no; or type a reason to deny.",
      "y/a/n › y",
      "",
      "✓ Edit a.txt: allowed by the user",
      "● Edit a.txt · +1 −1",
      "",
      "Done.",
      "",
      "9,600 cost units · 2 calls · 24,000",
      "  prompt tokens (67 % cached) · 240",
      "  output",
      "",
    ]);
  },
);

/** Runs a chat with piped input. */
async function piped(env: Readonly<Record<string, string>>, input: string, ...args: readonly string[]) {
  const [program = "", ...rest] = CHAT;
  const process = new Deno.Command(program, {
    args: [...rest, ...args],
    ...{ cwd: ROOT, env, stdin: "piped", stdout: "piped", stderr: "piped" },
  }).spawn();
  const writer = process.stdin.getWriter();
  await writer.write(new TextEncoder().encode(input));
  await writer.close();
  const { code, stdout, stderr } = await process.output();
  const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  return { code, out: out!, err: err! };
}

Deno.test("chat: piped lines are answered one after the other, to the end of input", async () => {
  await using server = serve(".", [], {});
  const { code, out, err } = await piped(server.env, "hello\n/cost\nlast");
  assertEquals([code, err], [0, ""]);
  assertMatch(
    out,
    /› hello\n\nYou said hello\.\n[^]*› \/cost\nsession: .* for 1 call: [^]*› last\n\nYou said last\.\n/,
  );
  const [, id = ""] = /Continue this session with --session (\S+)/.exec(out) ?? [];
  const next = await piped(server.env, "/cost\n/quit\nnever\n", "--session", id.slice(0, 4));
  assertMatch(next.out, /for 2 calls/);
  assertEquals(/never/.test(next.out), false);
  assertMatch((await piped(server.env, "/cost\n", "--continue")).out, /for 2 calls/);
  const unknown = await piped(server.env, "", "--session", "zz");
  assertEquals([unknown.code, unknown.err], [
    1,
    "Cannot find session zz: there is no such session.\n",
  ]);
});

Deno.test({
  ...needs(LINUX, "chat: Ctrl-D during a turn exits after it, and Ctrl-D at a request cancels it"),
}, async () => {
  const workspace = await Deno.makeTempDir();
  const command = "echo begun; until [ -e go ]; do sleep 0.05; done";
  const steps = [calls(["shell", { command }]), { role: "assistant", content: "Done." }] as const;
  for (const approvals of [{ rules: ALLOW_EVERYTHING }, {}]) {
    await using server = serve(workspace, steps, approvals);
    await using chat = openTerminal(CHAT, { cwd: workspace, env: server.env });
    await chat.shows(PROMPT);
    chat.type("go\r");
    const isAsked = !("rules" in approvals);
    await chat.shows(isAsked ? /y\/a\/n › [^›]*$/ : /begun\r\n/);
    chat.type("\x04");
    if (!isAsked) {
      await chat.shows(/Exits after this turn; Ctrl-C stops it\./);
      await Deno.writeTextFile(`${workspace}/go`, "");
    }
    assertEquals((await chat.ended).code, 0, chat.text());
    assertMatch(chat.text(), isAsked ? /denied by cancellation/ : /Done\.\r\n[^]*Continue this session/);
    assertEquals(/readline/.test(chat.text()), false);
  }
  await Deno.remove(workspace, { recursive: true });
});
