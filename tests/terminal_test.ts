// Runs the chat and the demo in a pseudo-terminal.
import { assert, assertEquals, assertMatch, assertNotMatch } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { contentText, type Model } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { agentHandler, type AgentOptions, ALLOW_EVERYTHING } from "@tare/server";
import { memoryStore } from "@tare/session/sqlite";
import { workspaceTools } from "@tare/tools";
import { openTerminal, type Terminal } from "./pseudo_terminal.ts";
import { recordingProvider } from "./recording_provider.ts";
import { LINUX, needs } from "./needs.ts";

const ROOT = fromFileUrl(new URL("..", import.meta.url));
/** The prompt, after which the cursor is moved to the third column. */
const PROMPT = new RegExp("› \u001b\\[3G$");

/** Calls a tool on `read` and `run`, waits for an abort on `wait`, and otherwise echoes. */
const model: Model = async function* ({ messages, signal }) {
  const last = messages.at(-1)!;
  const question = contentText(last.content).trim();
  if (question === "wait") {
    const { promise, resolve } = Promise.withResolvers<void>();
    signal.addEventListener("abort", () => resolve());
    await promise;
    return;
  }
  if (question === "read") {
    const call = { id: "1", type: "function", function: { name: "log", arguments: "{}" } } as const;
    yield {
      type: "completed",
      message: { role: "assistant", content: "", tool_calls: [call] },
      finishReason: "tool_calls",
    };
    return;
  }
  if (question === "run") {
    const command = "echo first; until [ -e go ]; do sleep 0.05; done";
    const call = { name: "shell", arguments: JSON.stringify({ command }) };
    const tool_calls = [{ id: "2", type: "function", function: call } as const];
    yield {
      type: "completed",
      message: { role: "assistant", content: "", tool_calls },
      finishReason: "tool_calls",
    };
    return;
  }
  const text = last.role === "tool" ? "It is read." : `You said ${question}.`;
  yield { type: "text_delta", text };
  yield { type: "completed", message: { role: "assistant", content: text }, finishReason: "stop" };
};

function serve(workspace = ".", approvals: AgentOptions["approvals"] = { rules: ALLOW_EVERYTHING }) {
  const agent = agentHandler({
    models: {
      defaultModel: "echo",
      model: () => model,
      profile: profileNamed("openai"),
      windowTokens: 100_000,
      countTokens: () => Promise.resolve((text) => text.length),
    },
    approvals,
    tools: [...workspaceTools({ workspace }), {
      definition: { type: "function", function: { name: "log" } },
      run: () => "all is well ".repeat(200),
    }],
    store: memoryStore(),
  });
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    (request) => agent.fetch(request),
  );
  return {
    port: String(server.addr.port),
    async [Symbol.asyncDispose]() {
      await agent.close();
      await server.shutdown();
    },
  };
}

Deno.test({ ...needs(LINUX, "chat: messages, cancellation, commands and exit") }, async () => {
  const workspace = await Deno.makeTempDir();
  await using server = serve(workspace);
  const env = { TARE_PORT: server.port, TARE_HOST: "", TARE_TOKEN: "", NO_COLOR: "1" };
  await using chat = openTerminal([Deno.execPath(), "task", "-q", "chat"], { cwd: ROOT, env });
  /** Types a line. Resolves to the output up to the next prompt. */
  const say = async (line: string, expected: RegExp = PROMPT) => {
    const from = chat.text().length;
    chat.type(line);
    return await chat.shows(expected, from);
  };
  assertMatch(
    await chat.shows(PROMPT),
    /Chatting with echo at http:\/\/127\.0\.0\.1:\d+\.\r\n\/help lists the commands, tare page opens the page\./,
  );
  assertMatch(await say("hello\r"), /\r\n\r\nYou said hello\.\r\n\r\n[\d,]+ cost units · 1 call · /);
  // The waiting line is visible, and Ctrl-C ends only the turn.
  await say("wait\r", /⠋ \d+ s · Thinking[^]*⠙ \d+ s · Thinking/);
  assertMatch(
    await say("\x03"),
    /Cancelling the turn …[^]*! The turn was cancelled\.\r\n/,
  );
  assertMatch(
    await say("read\r"),
    /● log · 1 line\r\n\r\n(?:\r.*)?It is read\.\r\n\r\n[\d,]+ cost units · 2 calls/,
  );
  assertMatch(await say("/results\r"), /\r\n +(\d) {2}log, visible: [\d,]+ of [\d,]+ tokens\r\n/);
  // Arrow keys recall a line for editing.
  await say("\x1b[A\x1b[A\x7f\x7f\x7f\x7fhello again\r", /You said hello again\.[^]*prompt tokens[^]*› \S+$/);
  assertMatch(await say("/quote\r"), /Probability that the prompt is still cached: \d+ %/);
  const listed = await say("/sessions\r");
  const [, id = ""] =
    /\r\n([0-9a-f]{8}) {2}\d{4}-\d\d-\d\d \d\d:\d\d {2}4 turns.* {2}hello\r\n/.exec(listed) ?? [];
  assertMatch(await say("/new\r"), /Your next message starts a new session\./);
  assertMatch(await say("/results\r"), /Cannot run \/results: this session has no messages yet/);
  assertMatch(await say(`/session ${id.slice(0, 4)}\r`), /› hello\r\n› wait\r\n› read\r\n› hello again\r\n/);
  // Ctrl-C clears the line.
  assertNotMatch(await say("lost\x03"), /You said/);
  assertNotMatch(await say("/quote it\r", /A cost unit is[^]*› \S+$/), /lost/);
  // A command's output is visible before it ends.
  await say("run\r", / {2}first\r\n[^]*\d+ s · Run echo first/);
  const before = chat.text().length;
  await Deno.writeTextFile(`${workspace}/go`, "");
  assertMatch(await chat.shows(/● Run echo first[^]*│ first[^]*› \S+$/, before), /2 calls/);
  // Pasted text is one message, and a backslash continues a line.
  const pasted = Array.from({ length: 200 }, (_, at) => `line ${at + 1}`).join("\r\n");
  assertMatch(
    await say(`see \x1b[200~${pasted}\r\n\x1b[201~ there\r`, /prompt tokens[^]*› \S+$/),
    /see \[paste 1: 200 lines\] there\r+\n[^]*You said see line 1\r\nline 2\r\n[^]*line 200 there\.\r\n/,
  );
  await say("one\\\r", /… \S+$/);
  await say("lost\\\r", /… \S+$/);
  await say("\x03");
  await say("one\\\r", /… \S+$/);
  assertMatch(await say("two\r", /prompt tokens[^]*› \S+$/), /You said one\r\ntwo\./);
  // The last message again, and edited, each in a fork.
  assertMatch(
    await say("/retry\r", /prompt tokens[^]*› \S+$/),
    /Continuing in a fork[^]*You said one\r\ntwo\./,
  );
  await say("/ed\t", /\/edit $/);
  await say("\r", /› \S+\/edit one↵two$/);
  assertMatch(
    await say("\x7f\x7f\x7fthree\r", /prompt tokens[^]*› \S+$/),
    /\/session [0-9a-f]{8}\r\n[^]*You said one\r\nthree\./,
  );
  // A fork has only its own costs.
  assertMatch(
    await say("/cost\r"),
    /session: +[\d,]+ cost units for 1 call: [^]*\r\nlast turn: +[\d,]+ cost units for 1 call: /,
  );
  await say(`/session ${id}\r`);
  chat.type("\x04");
  await chat.shows(new RegExp(`Continue this session with --session ${id.slice(0, 8)}`));
  assertEquals((await chat.ended).code, 0);
  await Deno.remove(workspace, { recursive: true });
});

Deno.test(
  {
    ...needs(
      LINUX,
      "chat and ask: calls that don't only read need approval, and earlier input doesn't answer",
    ),
  },
  async () => {
    const workspace = await Deno.makeTempDir();
    await Deno.writeTextFile(`${workspace}/go`, "");
    await using server = serve(workspace, {});
    const env = { TARE_PORT: server.port, TARE_HOST: "", TARE_TOKEN: "", NO_COLOR: "1" };
    await using chat = openTerminal([Deno.execPath(), "task", "-q", "chat"], { cwd: ROOT, env });
    const say = async (line: string, expected: RegExp = PROMPT) => {
      const from = chat.text().length;
      chat.type(line);
      return await chat.shows(expected, from);
    };
    const ASKS = new RegExp("y/a/n › (\u001b\\[\\d+G)?$");
    await chat.shows(PROMPT);
    assertMatch(await say("run\r", ASKS), /▌ Approval needed\r\n▌ Run echo first; until/);
    assertMatch(
      await say("y\r"),
      /✓ Run echo first[^]*: allowed by the user\r\n[^]*● Run echo first[^]*│ first[^]*It is read\./,
    );
    await say("run\r", ASKS);
    assertMatch(await say("not now\r"), /: denied by the user: not now\r\n[^]*✗ Run echo first[^]*error\r\n/);
    await say("run\r", ASKS);
    assertMatch(await say("\x03"), /Cancelling the turn …[^]*: denied by cancellation\r\n/);
    assertMatch(await say("hello\r"), /You said hello\./);
    chat.type("\x04");
    assertEquals((await chat.ended).code, 0);

    const all = `http://127.0.0.1:${server.port}/tare/v1/sessions`;
    const { sessions: [{ id }] } = await (await fetch(all)).json();
    const body = JSON.stringify({ input: "run" });
    const headers = { "content-type": "application/json" };
    const url = `${all}/${id}/turns`;
    await (await fetch(url, { method: "POST", headers, body })).text();
    await using again = openTerminal([Deno.execPath(), "task", "-q", "chat", "--session", id.slice(0, 5)], {
      cwd: ROOT,
      env,
    });
    await again.shows(ASKS);
    again.type("y\r");
    await again.shows(/allowed by the user[^]*It is read\.[^]*› \S*$/);
    // Another client's turn is shown, and then the message is sent.
    const elsewhere = await fetch(url, { method: "POST", headers, body: JSON.stringify({ input: "wait" }) });
    again.type("hello\r");
    await again.shows(/A turn is running; Ctrl-C stops it: wait\r\n[^]*\d+ s · (Thinking|Working)/);
    again.type("\x03");
    await again.shows(/! The turn was cancelled[^]*You said hello\.\r\n[^]*› \S*$/);
    await elsewhere.text();
    again.type("\x04");
    assertEquals((await again.ended).code, 0);

    await using session = openTerminal([Deno.execPath(), "task", "-q", "ask", "run"], { cwd: ROOT, env });
    session.type("y\r");
    await session.shows(ASKS);
    session.type("a\r");
    assertEquals((await session.ended).code, 0);
    assertMatch(session.text(), /: always allowed by the user[^]*It is read\./);

    // Piped input doesn't disable approvals.
    await using piped = openTerminal(
      ["/bin/sh", "-c", `echo run | exec "$0" task -q ask`, Deno.execPath()],
      { cwd: ROOT, env },
    );
    await piped.shows(ASKS);
    piped.type("a\r");
    assertEquals((await piped.ended).code, 0);
    assertMatch(piped.text(), /: always allowed by the user[^]*It is read\./);

    // Piped output can't be answered.
    const { success, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["task", "-q", "ask", "run"],
      cwd: ROOT,
      env,
    }).output();
    assertMatch(new TextDecoder().decode(stderr), /✗ Run echo first[^]*error\r?\n/);
    assertEquals(success, true);
    await Deno.remove(workspace, { recursive: true });
  },
);

Deno.test(
  { ...needs(LINUX, "chat: closing the terminal cancels the running turn") },
  async () => {
    await using server = serve();
    const env = { TARE_PORT: server.port, TARE_HOST: "", TARE_TOKEN: "", NO_COLOR: "1" };
    await using chat = openTerminal([Deno.execPath(), "run", "-A", "packages/cli/terminal/chat.ts"], {
      cwd: ROOT,
      env,
    });
    await chat.shows(PROMPT);
    chat.type("wait\r");
    await chat.shows(/s · Thinking/);
    Deno.kill(chat.pid, "SIGHUP");
    await chat.ended;
    const url = `http://127.0.0.1:${server.port}/tare/v1/sessions`;
    const { sessions: [{ id, status }] } = await (await fetch(url)).json();
    assertEquals(status, "idle");
    assertMatch(await (await fetch(`${url}/${id}/events`)).text(), /"type":"turn_end","reason":"cancelled"/);
  },
);

for (const [program, ...args] of [["terminal/chat.ts"], ["ask.ts", "wait"]]) {
  Deno.test({
    ...needs(
      LINUX,
      `${program}: a closed terminal cancels the turn`,
    ),
  }, async () => {
    await using server = serve();
    const env = { TARE_PORT: server.port, TARE_HOST: "", TARE_TOKEN: "", NO_COLOR: "1" };
    const command = [Deno.execPath(), "run", "-A", `packages/cli/${program}`, ...args];
    await using terminal = openTerminal(command, { cwd: ROOT, env });
    if (args.length === 0) {
      await terminal.shows(PROMPT);
      terminal.type("wait\r");
    }
    // The waiting line is redrawn periodically.
    await terminal.shows(/s · Thinking/);
    terminal.close();
    await terminal.ended;
    const url = `http://127.0.0.1:${server.port}/tare/v1/sessions`;
    const { sessions: [{ id, status }] } = await (await fetch(url)).json();
    assertEquals(status, "idle");
    assertMatch(
      await (await fetch(`${url}/${id}/events`)).text(),
      /"type":"turn_end","reason":"cancelled"/,
    );
  });
}

Deno.test({
  ...needs(LINUX, "chat: a joined turn is shown, and input during a turn is sent after it"),
}, async () => {
  const workspace = await Deno.makeTempDir();
  await using server = serve(workspace);
  const env = { TARE_PORT: server.port, TARE_HOST: "", TARE_TOKEN: "", NO_COLOR: "1" };
  const chat = (...args: string[]) =>
    openTerminal([Deno.execPath(), "task", "-q", "chat", ...args], { cwd: ROOT, env });
  await using first = chat();
  await first.shows(PROMPT);
  first.type("run\r");
  await first.shows(/ {2}first\r\n/);
  const url = `http://127.0.0.1:${server.port}/tare/v1/sessions`;
  const { sessions: [{ id }] } = await (await fetch(url)).json();
  await using second = chat("--session", id);
  await second.shows(/A turn is running; Ctrl-C stops it: run\r\n/);
  first.type("hello\r");
  await Deno.writeTextFile(`${workspace}/go`, "");
  assertMatch(
    await first.shows(/You said hello\.[^]*› \S+$/),
    /● Run echo first[^]*It is read\.[^]*› \S*hello\r*\n\r\nYou said hello\./,
  );
  assertMatch(
    await second.shows(/It is read\.[^]*› \S+$/),
    // The waiting line may precede it.
    // deno-lint-ignore no-control-regex
    /A turn is running[^]*(?:\r\n|\x1b\[K)● shell[^]*It is read\./,
  );
  const from = first.text().length;
  const before = second.text().length;
  second.type("wait\r");
  await second.shows(/s · Thinking/, before);
  first.type(`/session ${id}\r`);
  await first.shows(/A turn is running; Ctrl-C stops it: wait\r\n/, from);
  first.type("\x03");
  await first.shows(/! The turn was cancelled[^]*› \S+$/, from);
  for (const terminal of [first, second]) {
    terminal.type("\x04");
    assertEquals((await terminal.ended).code, 0);
  }
  await Deno.remove(workspace, { recursive: true });
});

Deno.test({
  ...needs(LINUX, "tare: starts a folder's server, chats, finds the server again, and stops it"),
}, async () => {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  const cwd = `${folder}/project`;
  await Deno.mkdir(`${cwd}/.claude/commands`, { recursive: true });
  await Deno.writeTextFile(`${cwd}/.claude/commands/fix.md`, "---\ndescription: Fixes it\n---\nFix $1.");
  await Deno.writeTextFile(`${cwd}/notes.md`, "");
  await Deno.writeFile(`${cwd}/shot.png`, new Uint8Array([1, 2, 3]));
  const inputs: unknown[] = [];
  const provider = recordingProvider({
    scripted({ messages }) {
      const { content } = messages.at(-1)!;
      inputs.push(content);
      return { content: `You said **${contentText(content)}**.` };
    },
    other: () => ({ content: "" }),
  });
  const unset = "TARE_HOST TARE_PORT TARE_TOKEN TARE_DATA TARE_WORKSPACE INIT_CWD ANTHROPIC_API_KEY".split(
    " ",
  );
  const env = {
    ...Object.fromEntries(unset.map((name) => [name, ""])),
    OPENAI_BASE_URL: provider.url,
    TARE_MODEL: "scripted",
    XDG_DATA_HOME: `${folder}/data`,
    XDG_CONFIG_HOME: `${folder}/config`,
    // Styled, even if this test runs with NO_COLOR.
    NO_COLOR: "",
  };
  const tare = (...args: string[]) =>
    openTerminal([Deno.execPath(), "run", "-A", `${ROOT}packages/cli/tare.ts`, ...args], { cwd, env });
  await using first = tare();
  assertMatch(
    await first.shows(PROMPT),
    new RegExp(
      `Started a server for ${cwd} in [\\d.]+ s\\. It runs in the background; tare stop ends it\\.\r\n[^]*` +
        `Chatting with scripted in ${cwd}\\.\r\n/help lists the commands, tare page opens the page\\.\r\n`,
    ),
  );
  const say = async (keys: string) => {
    const from = first.text().length;
    first.type(keys);
    return await first.shows(/prompt tokens[^]*› \S+$/, from);
  };
  assertMatch(await say("hello\r"), new RegExp("You said \u001b\\[1mhello\u001b\\[22m\\.\r\n"));
  first.type("see @note\t");
  await first.shows(/› \S+see @notes\.md $/);
  await say("and @shot.png\r");
  // The image stays with the edited message, without its file, until its mark is removed.
  await Deno.remove(`${cwd}/shot.png`);
  for (const keys of ["\r", "\x7f".repeat(" [image 1]".length) + "\r"]) {
    const from = first.text().length;
    first.type("/edit\r");
    await first.shows(/› \S+\/edit see @notes\.md and @shot\.png \[image 1\]$/, from);
    await say(keys);
  }
  first.type("/f\t");
  await first.shows(/› \S+\/f$/);
  first.type("\t");
  await first.shows(/\/fork +\/fix/);
  await say("ix bug\r");
  const shot = [
    { type: "text", text: "see @notes.md and @shot.png" },
    { type: "image_url", image_url: { url: "data:image/png;base64,AQID" } },
  ];
  assertEquals(inputs, ["hello", shot, shot, "see @notes.md and @shot.png", "Fix bug."]);
  first.type("\x04");
  const [, id = ""] = /--session (\S+)/.exec(await first.shows(/--session \S+\r\n/)) ?? [];
  assertEquals((await first.ended).code, 0);

  await using second = tare("--session", id);
  assertNotMatch(await second.shows(PROMPT), /Started a server/);
  second.type("\x04");
  assertEquals((await second.ended).code, 0);
  assertMatch(second.text(), new RegExp(`Continuing session ${id}`));
  await using stop = tare("stop");
  assertEquals((await stop.ended).code, 0);
  assertMatch(stop.text(), new RegExp(`The server of ${cwd} has stopped\\.`));
  await using again = tare("stop");
  assertEquals((await again.ended).code, 1);
  assertMatch(again.text(), new RegExp(`Cannot find a server for ${cwd}: none runs there`));

  // Without a model, it asks for one and remembers it; changed settings restart the server.
  const start = () =>
    openTerminal([Deno.execPath(), "run", "-A", `${ROOT}packages/cli/tare.ts`], {
      cwd,
      env: { ...env, TARE_MODEL: "" },
    });
  const stored = `${folder}/config/tare/settings.json`;
  const leave = async (terminal: Terminal) => {
    terminal.type("\x04");
    assertEquals((await terminal.ended).code, 0);
  };
  await using choosing = start();
  await choosing.shows(/ 1 {2}scripted\r\n {3}2 {2}other\r\n[^]*Model: number or name \[scripted\] /);
  choosing.type("\r");
  await choosing.shows(/Stored in \S+settings\.json\.[^]*Chatting with scripted[^]*› \S+$/);
  await leave(choosing);
  assertEquals(JSON.parse(await Deno.readTextFile(stored)), { TARE_MODEL: "scripted" });
  await using storing = tare("settings", "TARE_MODEL=other");
  assertEquals((await storing.ended).code, 0);
  await using changed = start();
  await changed.shows(/Settings have changed \(TARE_MODEL\)\. Restarting[^]*Chatting with other[^]*› \S+$/);
  await leave(changed);
  // Stopping a server whose key this shell lacks would lose it.
  await using foreign = openTerminal([Deno.execPath(), "run", "-A", `${ROOT}packages/cli/tare.ts`], {
    cwd,
    env: { ...env, TARE_MODEL: "scripted", OPENAI_BASE_URL: "" },
  });
  await foreign.shows(
    /other settings \(TARE_MODEL\), and can't be restarted: OPENAI_BASE_URL of that server isn't/,
  );
  await foreign.shows(/Chatting with other[^]*› \S+$/);
  await leave(foreign);
  assertEquals((await tare("stop").ended).code, 0);
  await using wrong = openTerminal([Deno.execPath(), "run", "-A", `${ROOT}packages/cli/tare.ts`], {
    cwd,
    env: { ...env, TARE_POLICY: "none" },
  });
  assertEquals((await wrong.ended).code, 1);
  assertMatch(wrong.text(), /Cannot start: TARE_POLICY is "none". It must be/);
  await provider.close();
  await Deno.remove(folder, { recursive: true });
});

Deno.test(
  { ...needs(LINUX, "demo: shows progress, and a table of the ledgers") },
  async () => {
    const command = [Deno.execPath(), "task", "-q", "demo", "--workspace", "packages/messages"];
    await using demo = openTerminal(command, { cwd: ROOT, env: { NO_COLOR: "1" } });
    assertEquals((await demo.ended).code, 0);
    const output = demo.text();
    const shares = [...output.matchAll(/\[#* *\] (\d+) %/g)].map(([, share]) => Number(share));
    assert(shares.length > 3, output);
    assertEquals(shares, shares.toSorted((a, b) => a - b));
    assertMatch(output, /the provider is simulated/);
    assertMatch(output, /everything resent +fixed triggers +planner\r\nmodel calls/);
    assertMatch(output, /with the same text +(\d+) +\1 +\1\r\n/);
    assertMatch(output, /Next: .*http:\/\/127\.0\.0\.1:8787\//);
  },
);
