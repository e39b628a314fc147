import { assert, assertAlmostEquals, assertEquals, assertGreater, assertStringIncludes } from "@std/assert";
import { loadTokenizer } from "@tare/tiktoken";
import { listPrice, profileNamed } from "@tare/planner";
import { fromFileUrl, join } from "@std/path";
import {
  claudeCodeLines,
  codexLines,
  type MadeSession,
  piLines,
  stepsOf,
  usageOf,
  writeOpencode,
} from "./made_logs.ts";
import { loadData } from "../scripts/savings/load_data.ts";
import { measureEconomy } from "../scripts/savings/measure_economy.ts";
import { generateWorkload } from "./workload.ts";
import type { historyJson } from "../packages/cli/history/history_report.ts";
import { LOG_FORMATS } from "../packages/cli/history/read_logs.ts";
import { runEntry } from "./processes/transfer_fixture.ts";

type Report = ReturnType<typeof historyJson>;

const RECORDINGS = generateWorkload();
const CLAUDE = "claude-sonnet-4-5";
const GPT = "gpt-5.5";

function made(id: string, number: number, options: Partial<MadeSession> = {}): MadeSession {
  const recording = RECORDINGS[number]!;
  return { id, recording, startMs: Date.UTC(2026, 4, 1, 12), cwd: `/work/${id}`, model: CLAUDE, ...options };
}

async function withHome(
  files: Readonly<Record<string, readonly string[]>>,
  test: (home: string) => Promise<void>,
): Promise<void> {
  const home = await Deno.makeTempDir();
  try {
    for (const [path, lines] of Object.entries(files)) {
      await Deno.mkdir(join(home, path, ".."), { recursive: true });
      await Deno.writeTextFile(join(home, path), lines.join("\n") + "\n");
    }
    await test(home);
  } finally {
    await Deno.remove(home, { recursive: true });
  }
}

async function report(home: string, ...args: readonly string[]): Promise<Report> {
  const { code, out, err } = await runEntry("history", ["--home", home, "--json", ...args]);
  assertEquals([code, err], [0, ""]);
  return JSON.parse(out);
}

function usdOf(session: MadeSession, { isWritten }: { readonly isWritten: boolean }): number {
  const { input, output, cacheRead = 0, cacheWrite = 0 } = listPrice(session.model)!;
  const fresh = isWritten ? cacheWrite : input;
  return usageOf(session).reduce(
    (sum, { promptTokens, cachedTokens, outputTokens }) =>
      sum + ((promptTokens - cachedTokens) * fresh + cachedTokens * cacheRead + outputTokens * output) / 1e6,
    0,
  );
}

const ONE = made("one", 0);
const TWO = made("two", 1, { model: GPT });
const THREE = made("three", 3);
const FOUR = made("four", 0, { model: GPT });

const EACH = {
  ".claude/projects/p/one.jsonl": claudeCodeLines(ONE),
  ".codex/sessions/2026/05/01/rollout-two.jsonl": codexLines(TWO),
  ".pi/agent/sessions/p/three.jsonl": piLines(THREE),
};

function addOpencode(home: string): void {
  Deno.mkdirSync(join(home, ".local/share/opencode"), { recursive: true });
  writeOpencode(join(home, ".local/share/opencode/opencode.db"), [FOUR]);
}

Deno.test("tare history: each agent's logs are totalled by agent, model, project and day", async () => {
  await withHome(EACH, async (home) => {
    addOpencode(home);
    const { byAgent, byModel, byProject, byDay, all, read } = await report(home, "--seconds", "0");
    const usd = {
      "claude-code": usdOf(ONE, { isWritten: true }),
      codex: usdOf(TWO, { isWritten: false }),
      opencode: usdOf(FOUR, { isWritten: false }),
      pi: usdOf(THREE, { isWritten: false }),
    };
    const rows = (list: Report["byAgent"]) =>
      Object.fromEntries(list.map(({ key, usd }) => [key, Number(usd.toFixed(9))]).sort());
    const round = (record: Readonly<Record<string, number>>) =>
      Object.fromEntries(Object.entries(record).map(([key, usd]) => [key, Number(usd.toFixed(9))]).sort());
    assertEquals(rows(byAgent), round(usd));
    assertEquals(
      rows(byModel),
      round({ [CLAUDE]: usd["claude-code"] + usd.pi, [GPT]: usd.codex + usd.opencode }),
    );
    assertEquals(
      rows(byProject),
      round({
        "/work/one": usd["claude-code"],
        "/work/two": usd.codex,
        "/work/three": usd.pi,
        "/work/four": usd.opencode,
      }),
    );
    assertEquals(byDay.map(({ key }) => key), ["2026-05-01"]);
    const parts = Object.values(all.usdFor).reduce((sum, usd) => sum + usd, 0);
    assertAlmostEquals(all.usd, Object.values(usd).reduce((sum, usd) => sum + usd), 1e-9);
    assertAlmostEquals(parts, all.usd, 1e-9);
    assertEquals([read.files, read.unknownLines, read.unreadable], [4, {}, []]);
  });
});

Deno.test("tare history: each agent's log is read message by message", async () => {
  await withHome(EACH, (home) => {
    addOpencode(home);
    const sessions = { "claude-code": ONE, codex: TWO, opencode: FOUR, pi: THREE };
    for (const [agent, session] of Object.entries(sessions)) {
      const format = LOG_FORMATS.find((format) => format.agent === agent)!;
      const [path = ""] = [...format.find({ home, env: () => undefined })];
      const [read] = [...format.read(path, { messages: true, line: (isKnown) => assert(isKnown) })];
      const texts = read!.messages.filter(({ role }) => role !== "system")
        .map(({ ts: _, usage: __, ...message }) => message);
      const { messages, calls } = session.recording;
      const last = calls.at(-1)!.messages;
      assertEquals(texts, messages.slice(0, last + 1).filter(({ role }) => role !== "system"), format.agent);
    }
    return Promise.resolve();
  });
});

Deno.test("tare history: expired pauses, broken prefixes and new content are distinguished", async () => {
  const session = made("one", 3);
  const lines = claudeCodeLines(session);
  // One prompt in the middle of a turn isn't found in the cache, though it should be.
  const steps = stepsOf(session);
  const broken = steps.findIndex(({ requests }, at) => at > 10 && requests[0]?.role === "tool");
  const { promptTokens, cachedTokens } = steps[broken]!.usage;
  const changed = lines.map((line) =>
    line.includes(`"msg_one_${broken}"`)
      ? line.replace(
        /"cache_creation_input_tokens":\d+,"cache_read_input_tokens":\d+/,
        () => `"cache_creation_input_tokens":${promptTokens},"cache_read_input_tokens":0`,
      )
      : line
  );
  assertEquals(changed.join() === lines.join(), false);
  await withHome({ ".claude/projects/p/one.jsonl": changed }, async (home) => {
    const { all } = await report(home, "--seconds", "0");
    let expired = 0;
    for (const [at, { usage }] of steps.entries()) {
      if (at > 0 && usage.cachedTokens === 0) expired += steps[at - 1]!.usage.promptTokens;
    }
    assert(expired > 0);
    const cacheRead = steps.reduce((sum, { usage }) => sum + usage.cachedTokens, 0) - cachedTokens;
    const prompts = steps.reduce((sum, { usage }) => sum + usage.promptTokens, 0);
    assertEquals(all.tokensFor, {
      ...{ cacheRead, expired, broken: cachedTokens, new: prompts - cacheRead - expired - cachedTokens },
      output: steps.reduce((sum, { usage }) => sum + usage.outputTokens, 0),
      serverSide: 0,
    });
  });
});

Deno.test("tare history: content that a session copied from another is counted once, and subagents separately", async () => {
  const lines = claudeCodeLines(ONE);
  const subagent = made("helper", 0);
  await withHome({
    ".claude/projects/p/one.jsonl": lines,
    // Continues it, with all its messages under new names.
    ".claude/projects/p/two.jsonl": lines.map((line) =>
      line.replaceAll('"sessionId":"one"', '"sessionId":"two"')
    ),
    ".claude-work/projects/q/one/subagents/agent-a1.jsonl": claudeCodeLines(subagent, { agentId: "a1" }),
  }, async (home) => {
    const { all, sessions } = await report(home, "--seconds", "0");
    assertAlmostEquals(
      all.usd,
      usdOf(ONE, { isWritten: true }) + usdOf(subagent, { isWritten: true }),
      1e-9,
    );
    assertEquals(sessions.map(({ id }) => id).sort(), ["a1", "one"]);
  });
});

Deno.test("tare history: lines of unknown shape are skipped and counted, and the rest is read", async () => {
  const lines = claudeCodeLines(ONE);
  const odd = [
    "no JSON",
    "[]",
    '{"type":"assistant","uuid":"x","message":{"id":7}}',
    '{"type":"user","uuid":"y","message":{"role":"user","content":3}}',
    lines[3]!.slice(0, 40),
  ];
  await withHome({
    ".claude/projects/p/one.jsonl": [...lines.slice(0, 9), ...odd, '{"type":"brand-new"}', ...lines.slice(9)],
    ".local/share/opencode/opencode.db": ["no database"],
  }, async (home) => {
    const { all, read } = await report(home, "--seconds", "0");
    assertEquals(read.unknownLines, { "claude-code": odd.length });
    assertEquals(all.calls, stepsOf(ONE).length);
    assertEquals(read.unreadable.map(({ path }) => path), [join(home, ".local/share/opencode/opencode.db")]);
  });
});

Deno.test("tare history: agents, projects and days are filtered by options", async () => {
  const later = made("later", 0, { startMs: Date.UTC(2026, 5, 1), cwd: "/work/other" });
  const files = { ...EACH, ".claude/projects/p/later.jsonl": claudeCodeLines(later) };
  await withHome(files, async (home) => {
    const ids = async (...args: readonly string[]) =>
      (await report(home, "--seconds", "0", ...args)).sessions.map(({ id }) => id).sort();
    assertEquals(await ids("--agent", "claude-code"), ["later", "one"]);
    assertEquals(await ids("--project", "work/t"), ["three", "two"]);
    assertEquals(await ids("--since", "2026-05-31"), ["later"]);
  });
});

Deno.test("tare history: days are local, or in UTC with --utc", async () => {
  const usage = { input_tokens: 10, output_tokens: 1 };
  const call = (hour: number) =>
    JSON.stringify({
      ...{ type: "assistant", uuid: `${hour}`, timestamp: `2026-05-01T${hour}:30:00Z`, cwd: `/work/${hour}` },
      message: { id: `m${hour}`, role: "assistant", model: CLAUDE, content: [], usage },
    });
  const files = { ".claude/projects/p/one.jsonl": [call(12)], ".claude/projects/p/two.jsonl": [call(20)] };
  await withHome(files, async (home) => {
    const days = async (...args: readonly string[]) => {
      const { out } = await runEntry("history", ["--home", home, "--json", "--seconds", "0", ...args], {
        TZ: "Asia/Tokyo",
      });
      const { byDayAndProject, timeZone }: Report = JSON.parse(out);
      return [timeZone, ...byDayAndProject.map(({ key }) => key)];
    };
    const [first, next] = ["2026-05-01 /work/12", "2026-05-02 /work/20"];
    assertEquals(await days(), ["Asia/Tokyo", first, next]);
    assertEquals(await days("--since", "2026-05-02"), ["Asia/Tokyo", next]);
    assertEquals(await days("--utc"), ["UTC", first, "2026-05-01 /work/20"]);
    assertEquals(await days("--utc", "--since", "2026-05-01"), ["UTC", first, "2026-05-01 /work/20"]);
  });
});

Deno.test("tare history: a folder without rights is reported, and the rest is read", async () => {
  await withHome({
    ".claude/projects/p/one.jsonl": claudeCodeLines(ONE),
    ".claude/projects/q/two.jsonl": [],
    ".codex/sessions/rollout.jsonl": [],
  }, async (home) => {
    const denied = [".claude/projects/q", ".codex/sessions", ".pi/agent/sessions"].map((path) =>
      join(home, path)
    );
    await Deno.symlink(denied[0]!, join(home, ".claude-other"));
    const { out } = await new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", "--no-prompt", "--allow-all", `--deny-read=${denied.join()}`],
        ...[fromFileUrl(new URL("../packages/cli/history.ts", import.meta.url))],
        ...["--home", home, "--json", "--seconds", "0"],
      ],
      env: { NO_COLOR: "1" },
    }).output().then(({ stdout }) => ({ out: new TextDecoder().decode(stdout) }));
    const { all, read }: Report = JSON.parse(out);
    assertEquals(all.calls, stepsOf(ONE).length);
    assertEquals(
      read.unreadable.map(({ path, why }) => `${path.slice(home.length + 1)}: ${why}`),
      [".claude/projects/q", ".codex/sessions", ".pi/agent/sessions"].map((path) =>
        `${path}: permission denied`
      ),
    );
  });
});

Deno.test("tare history: invalid options are reported", async () => {
  await withHome({ "nothing.txt": [] }, async (home) => {
    const output = async (...args: readonly string[]) => {
      const { code, err } = await runEntry("history", ["--home", home, ...args]);
      assertEquals(code, 1);
      return err.trimEnd();
    };
    const agents =
      "claude-code, codex, opencode, pi, qwen-code, copilot, cline, kilo, openclaw, gemini-cli, kimi";
    assertEquals(await output(), `Cannot find a session in ${home}: no logs of ${agents}.`);
    assertEquals(
      await output("--agent", "emacs"),
      `Cannot read logs of emacs: it is not supported. Use one of ${agents}.`,
    );
    assertEquals(
      await output("--since", "May"),
      "Cannot use --since May: it is not a day. Use the form 2026-01-31.",
    );
    assertEquals(
      await output("--seconds", "x"),
      "Cannot use --seconds x: it is not a number. Use a number from 0, or all.",
    );
  });
});

Deno.test("tare history: the estimated saving equals bench savings for the recordings that it writes", async () => {
  const sessions = [ONE, made("two", 1), THREE];
  const files = Object.fromEntries(
    sessions.map((session) => [`.claude/projects/p/${session.id}.jsonl`, claudeCodeLines(session)]),
  );
  await withHome(files, async (home) => {
    const folder = join(home, "recordings");
    const page = join(home, "page.html");
    const printed = await report(home, "--seconds", "all", "--recordings", folder, "--html", page);
    for (const { agent } of LOG_FORMATS) {
      if (agent !== "claude-code") await Deno.remove(join(folder, `${agent}.jsonl`));
    }
    const { count: countTokens } = await loadTokenizer();
    const data = loadData(folder, { warn: (sentence) => assertEquals(sentence, "") });
    const rows = await measureEconomy(data, {
      profile: profileNamed("anthropic-5m"),
      policies: ["planner"],
      countTokens,
    });
    const row = rows.at(-1)!;
    const sum = (of: (replay: NonNullable<Report["sessions"][number]["replay"]>) => number) =>
      printed.sessions.reduce((all, { replay }) => all + of(replay!), 0);
    const resent = sum(({ resent }) => resent);
    assertEquals([row.data, row.sessions], ["claude-code", 3]);
    for (const [kappa, cost] of [["k0", row.cost0], ["k1", row.cost1], ["k3", row.cost3]] as const) {
      assertAlmostEquals(sum(({ planner }) => planner[kappa]) / resent, cost, 1e-9);
    }
    assertAlmostEquals(
      sum(({ lostEdits }) => lostEdits) / sum(({ edits }) => edits),
      row.editsLostText,
      1e-9,
    );
    // Dollars are the estimated share of the cost.
    for (const { usd, replay, saved } of printed.sessions) {
      assertEquals(replay!.baseline, "resend");
      assertAlmostEquals(saved!.pruned.k1, usd * (1 - replay!.planner.k1 / replay!.resent), 1e-9);
    }
    assertAlmostEquals(
      printed.played.saved.pruned.k1,
      printed.sessions.reduce((sum, { saved }) => sum + saved!.pruned.k1, 0),
      1e-9,
    );
    for (const { replay, shares } of printed.sessions) {
      assertEquals(shares!.both.k1, 1 - replay!.keepAlive!.planner.k1 / replay!.baselineCosts.k1);
    }
    const { both, pruned } = printed.played.saved;
    assertGreater(both.k0, pruned.k0);
    const html = await Deno.readTextFile(page);
    assertStringIncludes(html, "<svg");
    assertEquals(html.match(/(?:src|href)=|url\(|@import|<script/g), null);
    for (const { id } of sessions) assertStringIncludes(html, `claude-code ${id}`);
  });
});

Deno.test("tare history: the report is printed as text", async () => {
  await withHome({ ".claude/projects/p/three.jsonl": claudeCodeLines(THREE) }, async (home) => {
    const { code, out, err } = await runEntry("history", ["--home", home, "--seconds", "all"]);
    assertEquals([code, err], [0, ""]);
    const usd = usdOf(THREE, { isWritten: true }).toFixed(2);
    assertStringIncludes(out, `$${usd} for 104 calls in 1 session, 2026-05-01 to 2026-05-01`);
    assertStringIncludes(
      out,
      `Estimated saving for 1 session, most expensive first: $${usd} of $${usd}.`,
    );
    assertStringIncludes(out, "by cache keep-alive: ");
    assertStringIncludes(out, "Read ");
  });
});

function readTexts(agent: string, home: string) {
  const format = LOG_FORMATS.find((format) => format.agent === agent)!;
  return [...format.find({ home, env: () => undefined })].flatMap((path) =>
    [...format.read(path, { messages: true, line: (isKnown) => assert(isKnown) })].map((session) => ({
      texts: session.messages.map((message) => {
        const calls = message.role === "assistant" ? message.tool_calls ?? [] : [];
        return [message.role, message.content, ...calls.map(({ id }) => id)].join(" ");
      }),
      compacted: session.compacted,
      prompts: session.calls.map(({ usage }) => usage.promptTokens),
    }))
  );
}

const jsonLines = (lines: readonly unknown[]) => lines.map((line) => JSON.stringify(line));

Deno.test("Claude Code's log: rewound messages aren't in the conversation but were paid; results are found anywhere", async () => {
  const usage = (tokens: number) => ({ input_tokens: tokens, output_tokens: 1 });
  const user = (uuid: string, parentUuid: string | null, content: unknown) => ({
    ...{ type: "user", uuid, parentUuid, message: { role: "user", content } },
  });
  const reply = (uuid: string, parentUuid: string, id: string, tokens: number, content: unknown) => ({
    ...{ type: "assistant", uuid, parentUuid },
    message: { id, role: "assistant", model: CLAUDE, content: [content], usage: usage(tokens) },
  });
  const call = (id: string) => ({ type: "tool_use", id, name: "Read", input: { path: id } });
  const result = (id: string) => [{ type: "tool_result", tool_use_id: id, content: `of ${id}` }];
  const lines = jsonLines([
    user("1", null, "first"),
    reply("2", "1", "m1", 10, { type: "text", text: "taken back" }),
    user("3", null, "second"),
    reply("4", "3", "m2", 20, call("a")),
    user("5", "4", result("a")),
    reply("6", "4", "m2", 20, call("b")),
    user("7", "6", result("b")),
    reply("8", "7", "m3", 30, { type: "text", text: "done" }),
    { type: "system", subtype: "compact_boundary", uuid: "9", parentUuid: null, logicalParentUuid: "8" },
    { ...user("10", "9", "the summary"), isCompactSummary: true },
    user("11", "10", "third"),
    reply("12", "11", "m4", 40, { type: "text", text: "again" }),
    {
      ...reply("13", "12", "m5", 0, { type: "text", text: "API Error" }),
      isApiErrorMessage: true,
    },
  ]);
  await withHome({ ".claude/projects/p/one.jsonl": lines }, (home) => {
    assertEquals(readTexts("claude-code", home), [{
      texts: [
        "user second",
        "assistant  a b",
        "tool of a",
        "tool of b",
        "assistant done",
        "user third",
        "assistant again",
      ],
      compacted: [5],
      prompts: [10, 20, 30, 40],
    }]);
    return Promise.resolve();
  });
});

Deno.test("Codex's newer logs: each response's own record counts, that of a compaction included", async () => {
  const item = (payload: unknown) => ({ type: "response_item", payload });
  const entry = (role: string, text: string) =>
    item({
      type: "message",
      role,
      content: [{ type: role === "user" ? "input_text" : "output_text", text }],
    });
  const record = (id: string, tokens: number) => ({
    ...{ type: "token_usage_record" },
    payload: { response_id: id, usage: { input_tokens: tokens, cached_input_tokens: 0, output_tokens: 1 } },
  });
  const total = { input_tokens: 10, output_tokens: 1 };
  const lines = jsonLines([
    { type: "session_meta", payload: { id: "one", cwd: "/work" } },
    { type: "turn_context", payload: { model: GPT } },
    entry("user", "first"),
    entry("assistant", "looking"),
    item({ type: "function_call", call_id: "a", name: "shell", arguments: "{}" }),
    item({ type: "function_call", call_id: "never answered", name: "shell", arguments: "{}" }),
    item({ type: "web_search_call", id: "ws" }),
    record("r1", 10),
    {
      type: "event_msg",
      payload: { type: "token_count", info: { total_token_usage: total, last_token_usage: total } },
    },
    item({ type: "function_call_output", call_id: "a", output: "of a" }),
    record("r2", 20),
    { type: "compacted", payload: { message: "", replacement_history: [] } },
    entry("user", "second"),
    entry("assistant", "done"),
    record("r3", 30),
  ]);
  await withHome({ ".codex/archived_sessions/rollout-one.jsonl": lines }, (home) => {
    assertEquals(readTexts("codex", home), [{
      texts: ["user first", "assistant looking a", "tool of a", "user second", "assistant done"],
      compacted: [3],
      prompts: [10, 20, 30],
    }]);
    return Promise.resolve();
  });
});

Deno.test("pi's log: only the newest branch is the conversation; a summary's usage was paid", async () => {
  const usage = (input: number) => ({ input, output: 1, cacheRead: 0, cacheWrite: 0 });
  const entry = (id: string, parentId: string | null, message: Readonly<Record<string, unknown>>) => ({
    ...{ type: "message", id, parentId, message },
  });
  const call = { type: "toolCall", id: "a", name: "read", arguments: { path: "x" } };
  const lines = jsonLines([
    { type: "session", id: "one", cwd: "/work", modelId: GPT },
    entry("1", null, { role: "user", content: "first" }),
    entry("2", "1", { role: "assistant", content: [{ type: "text", text: "taken back" }], usage: usage(10) }),
    entry("3", "1", { role: "assistant", content: [call], usage: usage(20) }),
    entry("4", "3", { role: "toolResult", toolCallId: "a", content: [{ type: "image" }], isError: true }),
    { type: "compaction", id: "5", parentId: "4", summary: "s", usage: usage(30) },
    entry("6", "5", { role: "bashExecution", command: "ls", output: "x" }),
    entry("7", "6", { role: "assistant", content: "done", usage: usage(40) }),
  ]);
  await withHome({ ".pi/agent/sessions/p/one.jsonl": lines }, (home) => {
    assertEquals(readTexts("pi", home), [{
      texts: ["user first", "assistant  a", "tool [image omitted]", "user $ ls\nx", "assistant done"],
      compacted: [3],
      prompts: [10, 20, 30, 40],
    }]);
    return Promise.resolve();
  });
});

Deno.test("opencode's older files: they are read like its database", async () => {
  const tokens = { input: 10, output: 1, reasoning: 2, cache: { read: 5, write: 0 } };
  const json = (value: unknown) => [JSON.stringify(value)];
  const state = { status: "error", input: { path: "x" }, error: "no such file", time: { end: 3 } };
  const folder = ".local/share/opencode/storage";
  await withHome({
    [`${folder}/session/p/ses_1.json`]: json({ id: "ses_1", directory: "/work" }),
    [`${folder}/message/ses_1/msg_1.json`]: json({ id: "msg_1", role: "user", time: { created: 1 } }),
    [`${folder}/part/msg_1/prt_1.json`]: json({ type: "text", text: "first" }),
    [`${folder}/message/ses_1/msg_2.json`]: json({ id: "msg_2", role: "assistant", modelID: GPT, tokens }),
    [`${folder}/part/msg_2/prt_1.json`]: json({ type: "tool", tool: "read", callID: "a", state }),
  }, (home) => {
    assertEquals(readTexts("opencode", home), [{
      texts: ["user first", "assistant  a", "tool no such file"],
      compacted: [],
      prompts: [15],
    }]);
    return Promise.resolve();
  });
});

Deno.test("Qwen Code's log: only the newest branch is the conversation, without reasoning", async () => {
  const entry = (
    uuid: string,
    parentUuid: string | null,
    type: string,
    more: Readonly<Record<string, unknown>>,
  ) => ({
    ...{ uuid, parentUuid, type, sessionId: "one", cwd: "/work", ...more },
  });
  const part = (...parts: readonly unknown[]) => ({ message: { parts } });
  const took = (promptTokenCount: number) => ({
    model: GPT,
    usageMetadata: {
      promptTokenCount,
      cachedContentTokenCount: 5,
      candidatesTokenCount: 1,
      thoughtsTokenCount: 2,
    },
  });
  const call = { functionCall: { id: "a", name: "read", args: { path: "x" } } };
  const answer = { functionResponse: { id: "a", name: "read", response: { error: "no such file" } } };
  const lines = jsonLines([
    entry("1", null, "user", part({ text: "first" }, { inlineData: {} })),
    entry("2", "1", "assistant", { ...part({ text: "taken back" }), ...took(10) }),
    entry("3", "1", "assistant", { ...part({ text: "hm", thought: true }, call), ...took(20) }),
    entry("4", "3", "tool_result", { ...part(answer), toolCallResult: { status: "error" } }),
    entry("5", "4", "system", { subtype: "chat_compression" }),
    entry("6", "5", "assistant", { ...part({ text: "done" }), ...took(30) }),
  ]);
  await withHome(
    { ".qwen/projects/p/chats/one.jsonl": lines, ".qwen/projects/p/other.jsonl": ["no log"] },
    (home) => {
      assertEquals(readTexts("qwen-code", home), [{
        texts: ["user first\n[image omitted]", "assistant  a", "tool no such file", "assistant done"],
        compacted: [3],
        prompts: [10, 20, 30],
      }]);
      return Promise.resolve();
    },
  );
});

Deno.test("Copilot's log: subagents are sessions of their own, and a reply has the usage before it", async () => {
  const took = (apiCallId: string, inputTokens: number) => ({
    type: "session.usage_record",
    data: {
      usage: {
        model: CLAUDE,
        inputTokens,
        cacheReadTokens: 5,
        cacheWriteTokens: 2,
        outputTokens: 1,
        apiCallId,
      },
    },
  });
  const call = { toolCallId: "a", name: "task", arguments: { prompt: "x" } };
  const lines = jsonLines([
    { type: "session.start", data: { sessionId: "one", context: { cwd: "/work" } } },
    { type: "user.message", data: { content: "first", transformedContent: "now, first" } },
    took("1", 10),
    { type: "assistant.message", data: { content: "looking", toolRequests: [call], apiCallId: "1" } },
    { ...took("2", 20), agentId: "h" },
    { type: "assistant.message", agentId: "h", data: { content: "helped", apiCallId: "2" } },
    {
      type: "tool.execution_complete",
      data: { toolCallId: "a", success: false, error: { message: "broke" } },
    },
    { type: "session.compaction_complete", data: { success: true } },
    took("3", 30),
    { type: "assistant.message", data: { content: "done", apiCallId: "3" } },
  ]);
  await withHome({ ".copilot/session-state/one/events.jsonl": lines }, (home) => {
    assertEquals(readTexts("copilot", home), [{
      texts: ["user now, first", "assistant looking a", "tool broke", "assistant done"],
      compacted: [3],
      prompts: [10, 30],
    }, { texts: ["assistant helped"], compacted: [], prompts: [20] }]);
    return Promise.resolve();
  });
});

Deno.test("Cline's log: results and adjacent texts are read separately; the folder is in another file", async () => {
  const use = { type: "tool_use", id: "a", name: "run", input: { commands: ["ls"] } };
  const result = { type: "tool_result", tool_use_id: "a", content: "no", is_error: true };
  const metrics = (inputTokens: number) => ({
    inputTokens,
    outputTokens: 1,
    cacheReadTokens: 5,
    cacheWriteTokens: 0,
  });
  const log = {
    sessionId: "one",
    system_prompt: "rules",
    messages: [
      { id: "1", role: "user", content: [{ type: "text", text: "first" }, { type: "image", data: "" }] },
      { id: "2", role: "assistant", content: [use], modelInfo: { id: GPT }, metrics: metrics(10) },
      { id: "3", role: "user", content: [result, { type: "text", text: "go on" }] },
      { id: "4", role: "assistant", content: "done", modelInfo: { id: GPT }, metrics: metrics(20) },
    ],
  };
  await withHome({
    ".cline/data/sessions/one/one.messages.json": [JSON.stringify(log)],
    ".cline/data/sessions/one/one.json": ['{"cwd": "/work"}'],
  }, (home) => {
    assertEquals(readTexts("cline", home), [{
      texts: [
        "system rules",
        "user first",
        "user [image omitted]",
        "assistant  a",
        "tool no",
        "user go on",
        "assistant done",
      ],
      compacted: [],
      prompts: [10, 20],
    }]);
    return Promise.resolve();
  });
});
