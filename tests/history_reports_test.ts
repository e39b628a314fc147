/**
 * Small logs in the shape of public reports of wrong totals, with the totals that are right. Names contain the reports'
 * repositories and numbers.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { zstdCompressSync } from "node:zlib";
import { type LoggedHistory, readLogs } from "../packages/cli/history/read_logs.ts";

type Line = Readonly<Record<string, unknown>>;

const START_MS = Date.UTC(2026, 8, 1, 12);
const at = (seconds: number) => new Date(START_MS + 1_000 * seconds).toISOString();

/** Writes a home, and returns what is read there. Functions make databases and links. */
function historyOf(
  files: Readonly<Record<string, readonly Line[] | string | ((path: string) => void)>>,
): LoggedHistory {
  const home = Deno.makeTempDirSync();
  try {
    for (const [name, content] of Object.entries(files)) {
      const path = `${home}/${name}`;
      Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
      if (typeof content === "function") content(path);
      else {
        Deno.writeTextFileSync(
          path,
          typeof content === "string" ? content : content.map((line) => `${JSON.stringify(line)}\n`).join(""),
        );
      }
    }
    return readLogs({ places: { home, env: () => undefined }, utc: true });
  } finally {
    Deno.removeSync(home, { recursive: true });
  }
}

function report(
  name: string,
  files: () => Parameters<typeof historyOf>[0],
  right: { readonly calls: number; readonly promptTokens: number },
): void {
  Deno.test(`tare history, as reported: ${name}`, () => {
    const { all: { calls, promptTokens }, unreadable } = historyOf(files());
    assertEquals({ calls, promptTokens, unreadable }, { ...right, unreadable: [] });
  });
}

// Codex

type CodexCall = readonly [text: string, seconds: number, last: number, total: number];

const meta = (id: string, seconds: number, more: Line = {}): Line => ({
  timestamp: at(seconds),
  type: "session_meta",
  payload: { id, timestamp: at(seconds), cwd: "/w", ...more },
});
const said = (text: string, seconds: number): Line => ({
  timestamp: at(seconds),
  type: "response_item",
  payload: { type: "message", role: "user", content: [{ type: "input_text", text }] },
});
const tokens = (input_tokens: number) => ({ input_tokens, cached_input_tokens: 0, output_tokens: 0 });
const counted = (seconds: number, info: Line): Line => ({
  timestamp: at(seconds),
  type: "event_msg",
  payload: { type: "token_count", info },
});
const codexCalls = (calls: readonly CodexCall[], restampedAt?: number): Line[] => [
  { timestamp: at(0), type: "turn_context", payload: { model: "gpt-5.5" } },
  ...calls.flatMap(([text, seconds, last, total]) => [
    said(text, restampedAt ?? seconds),
    counted(restampedAt ?? seconds + 2, {
      total_token_usage: tokens(total),
      last_token_usage: tokens(last),
    }),
  ]).map((line) => ({ ...line })),
];
const rollout = (name: string) => `.codex/sessions/2026/09/01/rollout-2026-09-01T12-00-${name}.jsonl`;

const A: CodexCall = ["A", 1, 1_000, 1_000];
const B: CodexCall = ["B", 5, 1_200, 2_200];
const PARENT = [meta("R", 0), ...codexCalls([A, B])];

report("ccusage 1370, a fork repeats its parent's totals with new times", () => ({
  [rollout("00-R")]: PARENT,
  [rollout("20-F")]: [
    meta("F", 20, { forked_from_id: "R" }),
    meta("R", 20),
    ...codexCalls([A, B], 20).slice(1),
    ...codexCalls([["C", 30, 1_400, 3_600]]).slice(1),
  ],
}), { calls: 3, promptTokens: 3_600 });

report("ccusage 1175, four generations of forks", () => ({
  [rollout("00-R")]: PARENT,
  ...Object.fromEntries([1, 2, 3].map((generation) => [
    rollout(`${generation}0-F${generation}`),
    [
      meta(`F${generation}`, 20 * generation, {
        forked_from_id: generation === 1 ? "R" : `F${generation - 1}`,
      }),
      ...codexCalls(
        [A, B, ...[1, 2].filter((older) => older < generation).map(forked)],
        20 * generation,
      ).slice(1),
      ...codexCalls([forked(generation)]).slice(1),
    ],
  ])),
}), { calls: 5, promptTokens: 2_200 + 1_401 + 1_402 + 1_403 });

function forked(generation: number): CodexCall {
  return [`C${generation}`, 20 * generation + 5, 1_400 + generation, 2_200 + 1_400 * generation];
}

report("ccusage 1460, a fork keeps its parent's times", () => ({
  [rollout("00-R")]: PARENT,
  [rollout("20-F")]: [
    meta("F", 20, { forked_from_id: "R" }),
    ...codexCalls([A, B]),
    ...codexCalls([["C", 30, 1_400, 3_600]]).slice(1),
  ],
}), { calls: 3, promptTokens: 3_600 });

report("ccusage 1460, a fork is written over several seconds", () => ({
  [rollout("00-R")]: PARENT,
  [rollout("20-F")]: [
    meta("F", 20, { forked_from_id: "R" }),
    ...codexCalls([A], 20).slice(1),
    ...codexCalls([B], 21).slice(1),
    ...codexCalls([["C", 30, 1_400, 3_600]]).slice(1),
  ],
}), { calls: 3, promptTokens: 3_600 });

report("ccusage 1460, a fork's own calls of the second in which it was written", () => ({
  [rollout("00-R")]: PARENT,
  [rollout("20-F")]: [
    meta("F", 20, { forked_from_id: "R" }),
    ...codexCalls([A, B, ["C", 20, 1_400, 3_600]], 20).slice(1),
  ],
}), { calls: 3, promptTokens: 3_600 });

const spawned = (id: string, seconds: number) =>
  meta(id, seconds, { source: { subagent: { thread_spawn: { parent_thread_id: "R", depth: 1 } } } });

report("ccusage 950 and codeburn 1380, a subagent repeats totals but not the records of its parent", () => ({
  [rollout("00-R")]: [
    meta("R", 0),
    ...[A, B].flatMap(([text, seconds, last, total]) => [
      said(text, seconds),
      {
        timestamp: at(seconds + 2),
        type: "token_usage_record",
        payload: { response_id: `r${total}`, usage: tokens(last) },
      },
      counted(seconds + 2, { total_token_usage: tokens(total), last_token_usage: tokens(last) }),
    ]),
  ],
  [rollout("20-H")]: [
    spawned("H", 20),
    ...codexCalls([A, B]),
    ...codexCalls([["help", 30, 1_400, 3_600]]).slice(1),
  ],
}), { calls: 3, promptTokens: 3_600 });

report("tokscale 679, subagents of a deleted session repeat it, and have equal totals of their own", () => ({
  ...Object.fromEntries(["1", "2"].map((name) => [
    rollout(`2${name}-H${name}`),
    [
      meta(`H${name}`, 20, { forked_from_id: "R" }),
      ...codexCalls([A, B], 20),
      ...codexCalls([["help", 30 + Number(name), 1_400, 3_600]]).slice(1),
    ],
  ])),
}), { calls: 4, promptTokens: 2_200 + 2 * 1_400 });

report("helpers that repeat nothing have equal totals and prompts", () => ({
  [rollout("00-R")]: PARENT,
  ...Object.fromEntries(["1", "2"].map((name) => [
    rollout(`2${name}-H${name}`),
    [spawned(`H${name}`, 20), ...codexCalls([["A", 23, 1_000, 1_000]]).slice(1)],
  ])),
}), { calls: 4, promptTokens: 2_200 + 2 * 1_000 });

report("Tokdash 24, one line of metadata with the parent's thread", () => ({
  [rollout("00-R")]: PARENT,
  [rollout("20-H")]: [
    meta("H", 20, { parent_thread_id: "R" }),
    ...codexCalls([A, B], 20).slice(1),
    ...codexCalls([["help", 30, 1_400, 3_600]]).slice(1),
  ],
}), { calls: 3, promptTokens: 3_600 });

report("vibe-usage 34, a session in the archive and among the others", () => ({
  [rollout("00-R")]: PARENT,
  ".codex/archived_sessions/rollout-2026-09-01T12-00-00-R.jsonl": PARENT,
}), { calls: 2, promptTokens: 2_200 });

report("a fork's parent is in the archive", () => ({
  ".codex/archived_sessions/rollout-2026-09-01T12-00-00-R.jsonl": PARENT,
  [rollout("20-F")]: [meta("F", 20, { forked_from_id: "R" }), ...codexCalls([A, B], 20).slice(1)],
}), { calls: 2, promptTokens: 2_200 });

report("budi 850 and cc-switch 3011, totals only, repeated and counted anew", () => ({
  [rollout("00-R")]: [
    meta("R", 0),
    ...[1_000, 1_000, 2_200, 1_000, 2_200, 3_700, 700].flatMap((total, step) => [
      said(`${step}`, 3 * step + 1),
      counted(3 * step + 3, { total_token_usage: tokens(total) }),
    ]),
  ],
}), { calls: 4, promptTokens: 3_700 + 700 });

report("equal calls whose totals aren't logged", () => ({
  [rollout("00-R")]: [
    meta("R", 0),
    ...[1, 2].flatMap((step) => [
      said("again", 3 * step),
      ...[1, 2].map(() => counted(3 * step + 2, { last_token_usage: tokens(1_000) })),
    ]),
  ],
}), { calls: 2, promptTokens: 2_000 });

// Claude Code

interface ClaudeLine {
  readonly seconds: number;
  readonly text: string;
  readonly input?: number;
  readonly output?: number;
  readonly id?: string;
  readonly requestId?: string;
}

/** Makes lines of Claude Code: replies have an input, others are the user's. */
function claude(session: string, lines: readonly ClaudeLine[], more: Line = {}): Line[] {
  return lines.map(({ seconds, text, input, output = 1, id, requestId }, number) => ({
    ...{
      parentUuid: null,
      cwd: "/w",
      sessionId: session,
      uuid: `${session}-${number}`,
      timestamp: at(seconds),
    },
    ...more,
    ...(input === undefined ? { type: "user", message: { role: "user", content: text } } : {
      type: "assistant",
      ...(requestId !== undefined && { requestId }),
      message: {
        ...(id !== undefined && { id }),
        role: "assistant",
        model: "claude-opus-4-6",
        content: [{ type: "text", text }],
        usage: { input_tokens: input, output_tokens: output },
      },
    }),
  }));
}

const TALK: readonly ClaudeLine[] = [
  { seconds: 1, text: "Do A." },
  { seconds: 2, text: "Did A.", input: 1_000, id: "msg_1", requestId: "req_1" },
  { seconds: 3, text: "Do B." },
  { seconds: 4, text: "Did B.", input: 1_200, id: "msg_2", requestId: "req_2" },
];
const MAIN = ".claude/projects/p/S1.jsonl";

report("ccusage 913, a side conversation repeats its session with other request ids", () => ({
  [MAIN]: claude("S1", TALK),
  ".claude/projects/p/S1/subagents/agent-aside_question-1.jsonl": claude("S1", [
    ...TALK.map((line) => ({ ...line, ...(line.requestId && { requestId: `${line.requestId}-side` }) })),
    { seconds: 10, text: "By the way?" },
    { seconds: 11, text: "Yes.", input: 1_300, id: "msg_3", requestId: "req_3" },
  ], { isSidechain: true, agentId: "aside_question-1" }),
}), { calls: 3, promptTokens: 3_500 });

report("ccusage 913, a side conversation with other times too", () => ({
  [MAIN]: claude("S1", TALK),
  ".claude/projects/p/S1/subagents/agent-aside_question-1.jsonl": claude(
    "S1",
    TALK.map((line) => ({
      ...line,
      seconds: line.seconds + 60,
      ...(line.requestId && { requestId: `${line.requestId}-side` }),
    })),
    { isSidechain: true, agentId: "aside_question-1" },
  ),
}), { calls: 2, promptTokens: 2_200 });

report("CodexBar 646, a subagent's lines in its session's log and in its own", () => {
  const help = claude("S1", TALK, { isSidechain: true });
  const main = [
    { seconds: 20, text: "Go on." },
    { seconds: 21, text: "Done.", input: 900, id: "msg_3", requestId: "req_3" },
  ];
  return {
    [MAIN]: [...help, ...claude("S1", main)],
    ".claude/projects/p/agent-1.jsonl": help.map((line) => ({ ...line, agentId: "1" })),
  };
}, { calls: 3, promptTokens: 3_100 });

report("older subagent logs without any id", () => {
  const help = claude("S1", TALK.map(({ id: _, requestId: __, ...line }) => line), { isSidechain: true });
  return {
    [MAIN]: help,
    ".claude/projects/p/agent-1.jsonl": help.map((line) => ({ ...line, agentId: "1" })),
  };
}, { calls: 2, promptTokens: 2_200 });

report("Claude Code 93859, a copy of the session at each reopening", () => ({
  ...Object.fromEntries([1, 2, 3].map((opened) => [
    `.claude/projects/p/S${opened}.jsonl`,
    claude(`S${opened}`, [
      ...TALK,
      ...[1, 2, 3].filter((number) => number < opened).flatMap((number) => [
        { seconds: 60 * number, text: `Do ${number}.` },
        {
          seconds: 60 * number + 1,
          text: "Done.",
          input: 2_000,
          id: `msg_r${number}`,
          requestId: `req_r${number}`,
        },
      ]),
    ]),
  ])),
}), { calls: 4, promptTokens: 6_200 });

report("equal sessions with other ids", () => ({
  [MAIN]: claude("S1", TALK),
  ".claude/projects/q/S2.jsonl": claude(
    "S2",
    TALK.map((line) => ({ ...line, ...(line.id && { id: `${line.id}b`, requestId: `${line.requestId}b` }) })),
  ),
}), { calls: 4, promptTokens: 4_400 });

report("ccusage 976, lines of one reply without a request id", () => ({
  [MAIN]: claude("S1", [
    { seconds: 1, text: "Do A." },
    { seconds: 2, text: "Did", input: 1_000, id: "chatcmpl-1", output: 1 },
    { seconds: 3, text: "A.", input: 1_000, id: "chatcmpl-1", output: 20 },
  ]),
}), { calls: 1, promptTokens: 1_000 });

report("ccusage 797, the last line of a reply has its usage", () => ({
  [MAIN]: claude("S1", [
    { seconds: 1, text: "Do A." },
    { seconds: 2, text: "Did", input: 0, id: "chatcmpl-1", output: 1 },
    { seconds: 3, text: "A.", input: 1_000, id: "chatcmpl-1", output: 20 },
  ]),
}), { calls: 1, promptTokens: 1_000 });

for (const requestId of [undefined, "req_relay"]) {
  report(
    `ccusage 1635, a relay answers with one id, ${requestId ? "and one" : "without a"} request id`,
    () => ({
      ...Object.fromEntries(["S1", "S2"].map((session, number) => [
        `.claude/projects/p/${session}.jsonl`,
        claude(
          session,
          TALK.map((line) => ({
            ...line,
            seconds: line.seconds + 60 * number,
            text: `${line.text} ${session}`,
            ...(line.id && { id: "ocgo", requestId: requestId! }),
          })).map(({ requestId, ...line }) => requestId === undefined ? line : { ...line, requestId }),
        ),
      ])),
    }),
    { calls: 4, promptTokens: 4_400 },
  );
}

report("replies of equal size without ids", () => ({
  [MAIN]: claude(
    "S1",
    [1, 2, 3].flatMap((turn) => [
      { seconds: 10 * turn, text: "Again." },
      { seconds: 10 * turn + 1, text: "Done.", input: 1_000 },
    ]),
  ),
}), { calls: 3, promptTokens: 3_000 });

report("a home and a project that are links", () => ({
  "dotfiles/claude/projects/q/S1.jsonl": claude("S1", TALK),
  "elsewhere/S2.jsonl": claude(
    "S2",
    TALK.map((line) => ({ ...line, seconds: line.seconds + 60, id: undefined! }))
      .map(({ id: _, ...line }) => line),
  ),
  ".claude": (path) => Deno.symlinkSync("dotfiles/claude", path),
  ".claude-again": (path) => Deno.symlinkSync("dotfiles/claude", path),
  "dotfiles/claude/projects/p": (path) => Deno.symlinkSync("../../../elsewhere", path),
  "dotfiles/claude/projects/q/up": (path) => Deno.symlinkSync("..", path),
}), { calls: 4, promptTokens: 4_400 });

// opencode

type OpencodeCall = readonly [seconds: number, input: number, text?: string];

const opencodeTokens = (input: number) => ({ input, output: 1, reasoning: 0, cache: { read: 0, write: 0 } });

/** Makes a database; sessions of version 2 have `newer` messages. */
function opencode(
  sessions: readonly {
    readonly id: string;
    readonly parent?: string;
    readonly older?: readonly OpencodeCall[];
    readonly newer?: readonly OpencodeCall[];
  }[],
): (path: string) => void {
  return (path) => {
    using database = new DatabaseSync(path);
    database.exec(`CREATE TABLE session (id text, parent_id text, directory text, time_created integer);
      CREATE TABLE message (id text, session_id text, time_created integer, data text);
      CREATE TABLE part (id text, message_id text, session_id text, data text);
      CREATE TABLE session_v2 (id text, parent_id text, fork_session_id text, directory text, time_created integer);
      CREATE TABLE session_message (id text, session_id text, type text, seq integer, time_created integer, data text);`);
    const insert = (table: string, ...values: (string | number | null)[]) =>
      database.prepare(`INSERT INTO ${table} VALUES (${values.map(() => "?").join()})`).run(...values);
    for (const [number, { id, parent = null, older = [], newer = [] }] of sessions.entries()) {
      if (older.length > 0) insert("session", id, parent, "/w", number);
      if (newer.length > 0) insert("session_v2", id, parent, null, "/w", number);
      for (const [seconds, input, text = "Done."] of older) {
        const created = START_MS + 1_000 * seconds;
        const data = {
          ...{ role: "assistant", modelID: "gpt-5.5", time: { created, completed: created + 500 } },
          tokens: opencodeTokens(input),
        };
        insert("message", `${id}-${seconds}`, id, created, JSON.stringify(data));
        insert("part", `${id}-${seconds}-1`, `${id}-${seconds}`, id, JSON.stringify({ type: "text", text }));
      }
      for (const [seq, [seconds, input, text = "Done."]] of newer.entries()) {
        const created = START_MS + 1_000 * seconds;
        const data = {
          ...{ model: { id: "gpt-5.5", providerID: "openai" }, time: { created, completed: created + 500 } },
          ...{ content: [{ type: "text", text }], tokens: opencodeTokens(input) },
        };
        insert("session_message", `new-${id}-${seq}`, id, "assistant", seq, created, JSON.stringify(data));
      }
    }
  };
}

const OPENCODE = ".local/share/opencode/opencode.db";

report("tokscale 446, forks with new ids", () => ({
  [OPENCODE]: opencode([
    { id: "a", older: [[1, 1_000], [2, 1_200]] },
    { id: "b", older: [[1, 1_000], [2, 1_200], [3, 1_400]] },
    { id: "c", older: [[1, 1_000], [2, 1_200], [3, 1_400], [4, 1_600]] },
  ]),
}), { calls: 4, promptTokens: 5_200 });

report("tokscale 451, different calls of one time and size", () => ({
  [OPENCODE]: opencode([
    { id: "a", older: [[1, 1_000, "This."]] },
    { id: "b", older: [[1, 1_000, "That."]] },
  ]),
}), { calls: 2, promptTokens: 2_000 });

report("helpers of one time, size and text", () => ({
  [OPENCODE]: opencode([
    { id: "a", older: [[1, 900]] },
    ...["b", "c"].map((id) => ({ id, parent: "a", older: [[2, 1_000]] as const })),
    ...["d", "e"].map((id) => ({ id, parent: "a", newer: [[3, 1_000]] as const })),
  ]),
}), { calls: 5, promptTokens: 4_900 });

report("ccusage 1644, a session of version 1 continues in version 2", () => ({
  [OPENCODE]: opencode([
    { id: "a", older: [[1, 1_000], [2, 1_200]], newer: [[1, 1_000], [2, 1_200], [3, 1_400]] },
    { id: "b", newer: [[4, 1_600]] },
    { id: "c", older: [[5, 1_800]] },
  ]),
}), { calls: 5, promptTokens: 7_000 });

report("ccusage 1780, forks of version 2", () => ({
  [OPENCODE]: opencode([
    { id: "a", newer: [[1, 1_000], [2, 1_200]] },
    { id: "b", newer: [[1, 1_000], [2, 1_200], [3, 1_400]] },
    { id: "c", newer: [[1, 1_000], [2, 1_200]] },
  ]),
}), { calls: 3, promptTokens: 3_600 });

report("tokscale 328, Kilo's database", () => ({
  ".local/share/kilo/kilo.db": opencode([{ id: "a", older: [[1, 1_000]] }, { id: "b", newer: [[2, 1_200]] }]),
}), { calls: 2, promptTokens: 2_200 });

// OpenClaw, Gemini CLI, Kimi

const claw = (seconds: number, input: number): Line => ({
  ...{ type: "message", id: `e${seconds}`, parentId: null, timestamp: at(seconds) },
  message: {
    ...{ role: "assistant", model: "gpt-5.5", timestamp: START_MS + 1_000 * seconds },
    ...{
      content: [{ type: "text", text: "Done." }],
      usage: { input, output: 1, cacheRead: 0, cacheWrite: 0 },
    },
  },
});
const CLAW = ".openclaw/agents/main";

report("agentsview 1845, OpenClaw's database next to the files that it replaced", () => ({
  [`${CLAW}/sessions/a.jsonl`]: [{ type: "session", version: 3, id: "a" }, claw(1, 1_000)],
  [`${CLAW}/sessions/b.jsonl.reset.2026-09-01`]: [{ type: "session", version: 3, id: "b" }, claw(2, 1_200)],
  [`${CLAW}/sessions/a.trajectory.jsonl`]: [claw(9, 9_000)],
  [`${CLAW}/agent/openclaw-agent.sqlite`](path: string) {
    using database = new DatabaseSync(path);
    database.exec(
      `CREATE TABLE transcript_events (session_id text, seq integer, event_json text, event_zstd blob);
      CREATE TABLE session_transcript_archives (session_id text, encoding text, archive_blob blob);`,
    );
    const bytes = (...lines: readonly Line[]) =>
      new TextEncoder().encode(lines.map((line) => JSON.stringify(line)).join("\n"));
    const add = database.prepare("INSERT INTO transcript_events VALUES (?, ?, ?, ?)");
    add.run("a", 1, JSON.stringify(claw(1, 1_000)), null);
    add.run("a", 2, null, zstdCompressSync(bytes(claw(3, 1_400))));
    const archive = database.prepare("INSERT INTO session_transcript_archives VALUES (?, ?, ?)");
    archive.run(
      "c",
      "zstd",
      zstdCompressSync(bytes({ type: "session", version: 3, id: "c" }, claw(4, 1_600))),
    );
    archive.run("d", "identity", bytes(claw(5, 1_800)));
  },
}), { calls: 5, promptTokens: 7_000 });

const gemini = (id: string, seconds: number, input: number, output = 1): Line => ({
  ...{ id, type: "gemini", timestamp: at(seconds), model: "gemini-3-pro", content: "Done." },
  tokens: { input, output, cached: 400, thoughts: 2, tool: 10, total: input + output + 12 },
});
const CHATS = ".gemini/tmp/project/chats";

report("Gemini CLI's messages are appended again, removed, and were stored otherwise before", () => {
  const session = { sessionId: "s", projectHash: "h", startTime: at(0) };
  return {
    [`${CHATS}/session-1.json`]: JSON.stringify({ ...session, messages: [gemini("1", 1, 1_000)] }),
    [`${CHATS}/session-1.jsonl`]: [
      session,
      gemini("1", 1, 1_000),
      gemini("2", 3, 1_200, 0),
      gemini("2", 3, 1_200, 20),
      { $rewindTo: "2" },
      { $set: { lastUpdated: at(9) } },
      gemini("3", 5, 1_400),
    ],
    [`${CHATS}/s/helper.jsonl`]: [{ ...session, kind: "subagent", sessionId: "h" }, gemini("1", 7, 900)],
    ".gemini/tmp/project/logs.json": "[]",
  };
}, { calls: 4, promptTokens: 4_500 + 4 * 10 });

report("Kimi's requests outside turns, subagents and forks; a repeated status of the older version", () => {
  const record = (seconds: number, inputOther: number, usageScope = "turn"): Line => ({
    ...{ type: "usage.record", time: START_MS + 1_000 * seconds, model: "kimi-code/kimi-k2", usageScope },
    usage: { inputOther, output: 1, inputCacheRead: 10, inputCacheCreation: 0 },
  });
  const status = (id: string, seconds: number, input_other: number): Line => ({
    timestamp: START_MS / 1_000 + seconds,
    message: { type: "StatusUpdate", payload: { message_id: id, token_usage: { input_other, output: 1 } } },
  });
  const session = [
    { type: "metadata", protocol_version: "1.5" },
    record(1, 990),
    record(2, 1_190, "session"),
  ];
  return {
    ".kimi-code/sessions/w/s1/agents/main/wire.jsonl": session,
    ".kimi-code/sessions/w/s2/agents/main/wire.jsonl": [...session, record(5, 1_390)],
    ".kimi-code/sessions/w/s1/agents/agent-0/wire.jsonl": [record(3, 490)],
    ".kimi-code/sessions/w/s1/agents/agent-1/wire.jsonl": [record(3, 490)],
    ".kimi/sessions/w/s/wire.jsonl": [status("m1", 1, 700), status("m1", 2, 700), status("m2", 3, 800)],
  };
}, { calls: 7, promptTokens: 1_000 + 1_200 + 1_400 + 2 * 500 + 1_500 });

Deno.test("tare history: what is found and not read is named", () => {
  const { notRead, unreadable, all } = historyOf({
    ".continue/sessions/1.json": "{}",
    ".continue/sessions/sessions.json": "[]",
    ".local/share/goose/sessions/sessions.db": "",
    ".kimi-code/sessions/w/s1/agents/main/wire.jsonl": [{ type: "metadata", protocol_version: "2.0" }],
    ".pi/agent/sessions/p/1.jsonl": [{ type: "session", version: 4, id: "s" }],
    [OPENCODE](path) {
      using database = new DatabaseSync(path);
      database.exec(
        "CREATE TABLE session_v3 (id text); CREATE TABLE session_message (id, session_id, type, seq, time_created, data)",
      );
    },
    ".local/share/opencode/opencode-next.db"(path) {
      using database = new DatabaseSync(path);
      database.exec("CREATE TABLE conversation (id text)");
    },
    ".codex/sessions/rollout-1.jsonl": [meta("R", 0), {
      ...said("A", 1),
      payload: { type: "message", role: "assistant", content: [{ type: "output_text", text: "Done." }] },
    }],
  });
  assertEquals(notRead.map(({ agent, what, count }) => `${agent}: ${what}, ${count}`), [
    "continue: logs that contain totals of sessions only, 1",
    "goose: logs that contain totals of sessions only, 1",
    "codex: sessions with replies without usage, 1",
    "opencode: the table session_v3, newer than what is read, 1",
    "pi: version 4, newer than what is read, 1",
    "kimi: version 2.0, newer than what is read, 1",
  ]);
  assertEquals(unreadable.map(({ why }) => why), [
    "It has no table of messages that is read: its version is unknown.",
  ]);
  assertEquals(all.calls, 0);
});

const rounded = (usd: number) => Number(usd.toFixed(6));

function billed(usage: Line, model = "claude-opus-4-8") {
  const [line] = claude("S1", [{ seconds: 1, text: "Done.", input: 1, id: "m", requestId: "r" }]);
  const message = { id: "m", role: "assistant", model, content: [], usage };
  const { all } = historyOf({ [MAIN]: [{ ...line, message }] });
  return { usd: rounded(all.usd), unpriced: all.unpricedCalls, serverSide: all.usdFor.serverSide };
}

Deno.test("tare history: speed, region, server tools and inner calls are billed, or unpriced", () => {
  const cache = { cache_creation_input_tokens: 0, cache_read_input_tokens: 0 };
  const usage = { ...cache, input_tokens: 1_000_000, output_tokens: 0 };
  const standard = billed(usage).usd;
  const fast = billed({ ...usage, speed: "fast" });
  assertEquals([fast.usd, billed({ ...usage, inference_geo: "us" }).usd], [
    2 * standard,
    rounded(1.1 * standard),
  ]);
  const searched = billed({ ...usage, server_tool_use: { web_search_requests: 100, web_fetch_requests: 3 } });
  assertEquals([searched.usd, searched.serverSide], [standard + 1, 1]);
  const compaction = { ...cache, type: "compaction", input_tokens: 200_000, output_tokens: 0 };
  const inner = billed({ ...usage, iterations: [compaction, { type: "message", ...usage }] });
  assertEquals([inner.usd, inner.unpriced], [rounded(1.2 * standard), 0]);
  assertEquals(billed({ ...usage, speed: "warp" }), { usd: 0, unpriced: 1, serverSide: 0 });
});

Deno.test("tare history: Codex's tier is that of the settings when the call was made", () => {
  const settings = (seconds: number, service_tier: string | null): Line => ({
    ...{ timestamp: at(seconds), type: "event_msg" },
    payload: { type: "thread_settings_applied", thread_settings: { model: "gpt-5.5", service_tier } },
  });
  const usdOf = (tier: string | null) =>
    historyOf({
      [rollout("00-R")]: [
        meta("R", 0),
        settings(0, tier),
        ...codexCalls([A]),
        settings(4, null),
        ...codexCalls([B]),
      ],
    }).all;
  const [standard, fast] = [usdOf(null), usdOf("fast")];
  assertEquals(standard.usd, 2_200 * 5 / 1e6);
  assertEquals(fast.unpricedCalls > 0 || fast.usd > standard.usd, true);
  assertEquals(usdOf("unheard-of").unpricedCalls, 1);
});
