import { assert, assertAlmostEquals, assertEquals, assertStringIncludes } from "@std/assert";
import { loadTokenizer } from "@tare/messages/tiktoken";
import { listPrice, profileNamed } from "@tare/planner";
import { join } from "@std/path";
import {
  claudeCodeLines,
  codexLines,
  type MadeSession,
  piLines,
  stepsOf,
  usageOf,
  writeOpencode,
} from "../scripts/bench/history/made_logs.ts";
import { loadData } from "../scripts/bench/economy/load_data.ts";
import { measureEconomy } from "../scripts/bench/economy/measure_economy.ts";
import { generateWorkload } from "../scripts/bench/economy/workload.ts";
import type { historyJson } from "../packages/app/history/history_json.ts";
import { LOG_FORMATS } from "../packages/app/history/read_history.ts";
import { runEntry } from "../packages/app/transfer_fixture_test.ts";

type Report = ReturnType<typeof historyJson>;

const RECORDINGS = generateWorkload();
const CLAUDE = "claude-sonnet-4-5";
const GPT = "gpt-5.5";

function made(id: string, number: number, options: Partial<MadeSession> = {}): MadeSession {
  const recording = RECORDINGS[number]!;
  return { id, recording, startMs: Date.UTC(2026, 4, 1, 12), cwd: `/work/${id}`, model: CLAUDE, ...options };
}

/** A home of agents in a folder of its own. */
async function withHome(
  files: Readonly<Record<string, readonly string[]>>,
  test: (home: string) => Promise<void> | void,
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

/** What a session cost, by hand. */
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

/** A session of each agent. */
const EACH = {
  ".claude/projects/p/one.jsonl": claudeCodeLines(ONE),
  ".codex/sessions/2026/05/01/rollout-two.jsonl": codexLines(TWO),
  ".pi/agent/sessions/p/three.jsonl": piLines(THREE),
};

function addOpencode(home: string): void {
  Deno.mkdirSync(join(home, ".local/share/opencode"), { recursive: true });
  writeOpencode(join(home, ".local/share/opencode/opencode.db"), [FOUR]);
}

Deno.test("tare history adds up what each agent's logs say, by agent, model, project and day", async () => {
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

Deno.test("tare history reads from each agent's log what was said, message by message", async () => {
  await withHome(EACH, (home) => {
    addOpencode(home);
    const sessions = [ONE, TWO, FOUR, THREE];
    for (const [at, format] of LOG_FORMATS.entries()) {
      const [path = ""] = [...format.find({ home, env: () => undefined })];
      const [read] = [...format.read(path, { messages: true, line: (isKnown) => assert(isKnown) })];
      const said = read!.messages.filter(({ role }) => role !== "system")
        .map(({ ts: _, usage: __, ...message }) => message);
      const { messages, calls } = sessions[at]!.recording;
      const last = calls.at(-1)!.messages;
      assertEquals(said, messages.slice(0, last + 1).filter(({ role }) => role !== "system"), format.agent);
    }
  });
});

Deno.test("tare history tells expired pauses from broken prefixes and from what is new", async () => {
  const session = made("one", 3);
  const lines = claudeCodeLines(session);
  // One prompt in the middle of a turn isn't found in the cache, though it should be.
  const steps = stepsOf(session);
  const broken = steps.findIndex(({ asked }, at) => at > 10 && asked[0]?.role === "tool");
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
    });
  });
});

Deno.test("tare history counts once what a session took over from another, and helpers by themselves", async () => {
  const lines = claudeCodeLines(ONE);
  const helper = made("helper", 0);
  await withHome({
    ".claude/projects/p/one.jsonl": lines,
    // Goes on from it, with all that it said before under a name of its own.
    ".claude/projects/p/two.jsonl": lines.map((line) =>
      line.replaceAll('"sessionId":"one"', '"sessionId":"two"')
    ),
    ".claude-work/projects/q/one/subagents/agent-a1.jsonl": claudeCodeLines(helper, { agentId: "a1" }),
  }, async (home) => {
    const { all, sessions } = await report(home, "--seconds", "0");
    assertAlmostEquals(
      all.usd,
      usdOf(ONE, { isWritten: true }) + usdOf(helper, { isWritten: true }),
      1e-9,
    );
    assertEquals(sessions.map(({ id }) => id).sort(), ["a1", "one"]);
  });
});

Deno.test("tare history skips and counts lines of no known shape, and reads the rest", async () => {
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

Deno.test("tare history leaves out other agents, projects and days, as it is told", async () => {
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

Deno.test("tare history says what was wrong with what it was given", async () => {
  await withHome({ "nothing.txt": [] }, async (home) => {
    const said = async (...args: readonly string[]) => {
      const { code, err } = await runEntry("history", ["--home", home, ...args]);
      assertEquals(code, 1);
      return err.trimEnd();
    };
    const agents = "claude-code, codex, opencode, pi";
    assertEquals(await said(), `Cannot find a session in ${home}: looked for logs of ${agents}.`);
    assertEquals(
      await said("--agent", "emacs"),
      `Cannot read logs of emacs: there are readers for ${agents}.`,
    );
    assertEquals(
      await said("--since", "May"),
      "Cannot use --since May: it must be a day, such as 2026-01-31.",
    );
    assertEquals(
      await said("--seconds", "x"),
      "Cannot use --seconds x: it must be a number from 0, or all.",
    );
  });
});

Deno.test("what tare history says would have been saved is what bench:economy prints for the recordings that it writes", async () => {
  const sessions = [ONE, made("two", 1), THREE];
  const files = Object.fromEntries(
    sessions.map((session) => [`.claude/projects/p/${session.id}.jsonl`, claudeCodeLines(session)]),
  );
  await withHome(files, async (home) => {
    const folder = join(home, "recordings");
    const page = join(home, "page.html");
    const told = await report(home, "--seconds", "all", "--recordings", folder, "--html", page);
    await Deno.remove(join(folder, "codex.jsonl"));
    await Deno.remove(join(folder, "opencode.jsonl"));
    await Deno.remove(join(folder, "pi.jsonl"));
    const { count: countTokens } = await loadTokenizer();
    const data = loadData(folder, { warn: (sentence) => assertEquals(sentence, "") });
    const rows = await measureEconomy(data, {
      profile: profileNamed("anthropic-5m"),
      policies: ["planner"],
      countTokens,
    });
    const row = rows.at(-1)!;
    const sum = (of: (replay: NonNullable<Report["sessions"][number]["replay"]>) => number) =>
      told.sessions.reduce((all, { replay }) => all + of(replay!), 0);
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
    // Dollars are the share that it would have saved of what was paid.
    for (const { usd, replay, saved } of told.sessions) {
      assertEquals(replay!.without, "resend");
      assertAlmostEquals(saved!.pruned.k1, usd * (1 - replay!.planner.k1 / replay!.resent), 1e-9);
    }
    assertAlmostEquals(
      told.played.saved.pruned.k1,
      told.sessions.reduce((sum, { saved }) => sum + saved!.pruned.k1, 0),
      1e-9,
    );
    const html = await Deno.readTextFile(page);
    assertStringIncludes(html, "<svg");
    assertEquals(html.match(/(?:src|href)=|url\(|@import|<script/g), null);
    for (const { id } of sessions) assertStringIncludes(html, `claude-code ${id}`);
  });
});

Deno.test("tare history tells it in a terminal's words", async () => {
  await withHome({ ".claude/projects/p/three.jsonl": claudeCodeLines(THREE) }, async (home) => {
    const { code, out, err } = await runEntry("history", ["--home", home, "--seconds", "all"]);
    assertEquals([code, err], [0, ""]);
    const usd = usdOf(THREE, { isWritten: true }).toFixed(2);
    assertStringIncludes(out, `$${usd} for 104 calls in 1 session, 2026-05-01 to 2026-05-01`);
    assertStringIncludes(
      out,
      `What Tare would have made of 1 session, the dearest first: $${usd} of $${usd}.`,
    );
    assertStringIncludes(out, "saved by warmth, which loses nothing: ");
    assertStringIncludes(out, "Read ");
  });
});
