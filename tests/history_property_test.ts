/**
 * Random histories with forks, copies, subagents, links and missing ids, written in each agent's format: the totals that
 * are read equal those of the generator.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { DatabaseSync } from "node:sqlite";
import { readLogs } from "../packages/cli/history/read_logs.ts";
import { seeded } from "./seeded.ts";
import { pick } from "./words.ts";

type Line = Readonly<Record<string, unknown>>;
type Files = Record<string, readonly Line[] | string>;

interface Call {
  readonly number: number;
  readonly prompt: string;
  readonly reply: string;
  readonly atMs: number;
  readonly promptTokens: number;
  readonly outputTokens: number;
}

interface Session {
  readonly id: string;
  readonly createdMs: number;
  readonly kind: "new" | "fork" | "copy" | "subagent";
  /** Session that it repeats or that started it. */
  readonly source?: Session;
  readonly copied: readonly Call[];
  readonly own: readonly Call[];
}

const START_MS = Date.UTC(2026, 8, 1, 12);
const MODEL = "gpt-5.5";
const iso = (ms: number) => new Date(ms).toISOString();
const callsOf = ({ copied, own }: Session) => [...copied, ...own];
const chance = (random: () => number, share: number) => random() < share;

/** Makes sessions. Subagents may have the prompts, replies and sizes of another one. */
function makeSessions(random: () => number, { hasTwins }: { readonly hasTwins: boolean }): Session[] {
  const sessions: Session[] = [];
  let [nowMs, number] = [START_MS, 0];
  const wait = () => nowMs += 3_000 + Math.floor(60_000 * random());
  const call = (like?: Call): Call => ({
    prompt: `prompt ${sessions.length} ${number % 2}`,
    reply: `reply ${number % 2}`,
    promptTokens: 1_000 + Math.floor(5 * random()),
    outputTokens: 1 + Math.floor(3 * random()),
    ...like,
    ...{ number: number++, atMs: wait() },
  });
  const calls = (least: number) => Array.from({ length: least + Math.floor(3 * random()) }, () => call());
  for (let count = 1 + Math.floor(7 * random()); count > 0; count--) {
    const kind = sessions.length === 0
      ? "new"
      : pick(["new", "fork", "fork", "copy", "subagent"] as const, random);
    const source = kind === "new" ? undefined : pick(sessions, random);
    const repeated = source && kind !== "subagent" ? callsOf(source) : [];
    const copied = kind === "fork" ? repeated.slice(0, 1 + Math.floor(repeated.length * random())) : repeated;
    const createdMs = wait();
    const twin = sessions.find((session) => session.kind === "subagent");
    const own = kind === "copy"
      ? []
      : kind === "subagent" && twin && hasTwins && chance(random, 0.5)
      ? twin.own.map(call)
      : calls(kind === "fork" ? 0 : 1);
    sessions.push({ id: `s${sessions.length}`, createdMs, kind, ...(source && { source }), copied, own });
  }
  return sessions;
}

type Writer = (sessions: readonly Session[], random: () => number, home: string) => Files;

function claudeCode(sessions: readonly Session[], random: () => number): Files {
  const ids = pick(["all", "no request", "none", "relay"] as const, random);
  const files: Files = {};
  for (const session of sessions) {
    const { id, kind } = session;
    const isSide = kind === "fork" && ids === "all" && chance(random, 0.3);
    const isSubagent = isSide || kind === "subagent";
    const lines = callsOf(session).flatMap(
      ({ number, prompt, reply, atMs, promptTokens, outputTokens }, at): Line[] => {
        const base = {
          ...{ sessionId: id, parentUuid: null, cwd: "/w", isSidechain: isSubagent },
          ...(isSubagent && { agentId: id }),
        };
        const requestId = isSide && at < session.copied.length ? `side_${number}` : `req_${number}`;
        const answer = (block: Line, output_tokens: number): Line => ({
          ...{ ...base, type: "assistant", uuid: `${id}-${number}-a`, timestamp: iso(atMs + 1_000) },
          ...(ids === "all" && { requestId }),
          message: {
            ...(ids !== "none" && { id: ids === "relay" ? "one" : `msg_${number}` }),
            ...{ role: "assistant", model: MODEL, content: [block] },
            usage: { input_tokens: promptTokens, output_tokens },
          },
        });
        const user = { type: "user", uuid: `${id}-${number}-u`, timestamp: iso(atMs) };
        return [
          { ...base, ...user, message: { role: "user", content: prompt } },
          answer({ type: "thinking", thinking: "Hm." }, 1),
          answer({ type: "text", text: reply }, outputTokens),
        ];
      },
    );
    const folder = pick(
      [".claude/projects/p", ".claude/projects/linked", ".claude-linked/projects/q"],
      random,
    );
    files[isSubagent ? `${folder}/${id}/subagents/agent-${id}.jsonl` : `${folder}/${id}.jsonl`] = lines;
  }
  return files;
}

const codexTokens = (input_tokens: number, output_tokens: number) => ({ input_tokens, output_tokens });

function codex(sessions: readonly Session[], random: () => number): Files {
  const files: Files = {};
  const mode = pick(["both", "totals", "records"] as const, random);
  for (const session of sessions) {
    const { id, kind, source, createdMs, copied, own } = session;
    const repeats = kind === "fork" || kind === "copy";
    const keepsTimes = chance(random, 0.3);
    let [writtenMs, input, output] = [createdMs, 0, 0];
    const metaOf = ({ id, source, kind, createdMs }: Session, atMs: number): Line => ({
      ...{ timestamp: iso(atMs), type: "session_meta" },
      payload: {
        ...{ id, timestamp: iso(createdMs), cwd: "/w" },
        ...(source &&
          (kind === "subagent" ? { parent_thread_id: source.id } : { forked_from_id: source.id })),
      },
    });
    const call = ({ prompt, atMs, promptTokens, outputTokens, number }: Call, isCopied: boolean): Line[] => {
      const time = (ms: number) => iso(isCopied && !keepsTimes ? ++writtenMs : ms);
      [input, output] = [input + promptTokens, output + outputTokens];
      const last = codexTokens(promptTokens, outputTokens);
      const message = { type: "message", role: "user", content: [{ type: "input_text", text: prompt }] };
      return [
        { timestamp: time(atMs), type: "response_item", payload: message },
        ...mode === "records" && !isCopied
          ? [{
            ...{ timestamp: time(atMs + 2_000), type: "token_usage_record" },
            payload: { response_id: `r${number}`, usage: last },
          }]
          : [],
        {
          ...{ timestamp: time(atMs + 2_000), type: "event_msg" },
          payload: {
            type: "token_count",
            info: {
              total_token_usage: codexTokens(input, output),
              ...(mode !== "totals" && { last_token_usage: last }),
            },
          },
        },
      ];
    };
    const ancestors: Session[] = [];
    for (let one = repeats ? source : undefined; one; one = one.source) ancestors.push(one);
    const folder = chance(random, 0.3) ? ".codex/archived_sessions" : ".codex/sessions/2026/09/01";
    files[`${folder}/rollout-${iso(createdMs).replaceAll(":", "-")}-${id}.jsonl`] = [
      metaOf(session, createdMs),
      ...ancestors.slice(0, Math.floor((ancestors.length + 1) * random())).map((one) =>
        metaOf(one, ++writtenMs)
      ),
      { timestamp: iso(createdMs), type: "turn_context", payload: { model: MODEL } },
      ...copied.flatMap((one) => call(one, true)),
      ...own.flatMap((one) => call(one, false)),
    ];
  }
  return files;
}

/** Writes sessions of version 1, of version 2, or of both where version 2 migrated them. */
const opencode = (agent: string): Writer => (sessions, random, home) => {
  const folder = `${home}/.local/share/${agent}`;
  Deno.mkdirSync(folder, { recursive: true });
  using database = new DatabaseSync(`${folder}/${agent}.db`);
  database.exec(`CREATE TABLE session (id text, parent_id text, directory text, time_created integer);
    CREATE TABLE message (id text, session_id text, time_created integer, data text);
    CREATE TABLE part (id text, message_id text, session_id text, data text);
    CREATE TABLE session_v2 (id text, parent_id text, directory text, time_created integer);
    CREATE TABLE session_message (id text, session_id text, type text, seq integer, time_created integer, data text);
    BEGIN;`);
  const insert = (table: string, ...values: (string | number | null)[]) =>
    database.prepare(`INSERT INTO ${table} VALUES (${values.map(() => "?").join()})`).run(...values);
  for (const session of sessions) {
    const { id, kind, source, createdMs } = session;
    const parent = kind === "subagent" ? source!.id : null;
    const versions = pick([[1], [2], [1, 2]], random);
    for (const version of versions) {
      insert(version === 1 ? "session" : "session_v2", id, parent, "/w", createdMs);
    }
    for (const [at, { reply, atMs, promptTokens, outputTokens }] of callsOf(session).entries()) {
      const time = { created: atMs, completed: atMs + 500 };
      const tokens = {
        input: promptTokens,
        output: outputTokens,
        reasoning: 0,
        cache: { read: 0, write: 0 },
      };
      const text = { type: "text", text: reply };
      if (versions.includes(1)) {
        insert(
          "message",
          `${id}-${at}`,
          id,
          atMs,
          JSON.stringify({ role: "assistant", modelID: MODEL, time, tokens }),
        );
        insert("part", `${id}-${at}-0`, `${id}-${at}`, id, JSON.stringify(text));
      }
      if (versions.includes(2)) {
        const data = JSON.stringify({ model: { id: MODEL }, time, tokens, content: [text] });
        insert("session_message", `v2-${id}-${at}`, id, "assistant", at, atMs, data);
      }
    }
  }
  database.exec("COMMIT");
  return {};
};

const piLines = (session: Session): Line[] => [
  { type: "session", version: 3, id: session.id, cwd: "/w" },
  ...callsOf(session).map(({ number, reply, atMs, promptTokens, outputTokens }) => ({
    ...{ type: "message", id: `e${number}`, parentId: null, timestamp: iso(atMs) },
    message: {
      ...{ role: "assistant", model: MODEL, timestamp: atMs, content: [{ type: "text", text: reply }] },
      usage: { input: promptTokens, output: outputTokens, cacheRead: 0, cacheWrite: 0 },
    },
  })),
];

const openClaw: Writer = (sessions, random, home) => {
  const folder = ".openclaw/agents/main";
  Deno.mkdirSync(`${home}/${folder}/agent`, { recursive: true });
  using database = new DatabaseSync(`${home}/${folder}/agent/openclaw-agent.sqlite`);
  database.exec("CREATE TABLE transcript_events (session_id text, seq integer, event_json text); BEGIN");
  const add = database.prepare("INSERT INTO transcript_events VALUES (?, ?, ?)");
  const files: Files = {};
  for (const session of sessions) {
    const stores = pick([["file"], ["database"], ["file", "database"]], random);
    const lines = piLines(session);
    if (stores.includes("file")) {
      files[`${folder}/sessions/${session.id}.jsonl${pick(["", ".reset.1"], random)}`] = lines;
    }
    if (stores.includes("database")) {
      for (const [at, line] of lines.entries()) add.run(session.id, at, JSON.stringify(line));
    }
  }
  database.exec("COMMIT");
  return files;
};

const geminiCli: Writer = (sessions, random) => {
  const files: Files = {};
  for (const session of sessions) {
    const head = { sessionId: session.id, projectHash: "h" };
    const messages = callsOf(session).map(({ number, reply, atMs, promptTokens, outputTokens }) => ({
      ...{ id: `m${number}`, type: "gemini", timestamp: iso(atMs), model: MODEL, content: reply },
      tokens: { input: promptTokens, output: outputTokens, cached: 0, thoughts: 0, tool: 0 },
    }));
    const path = `.gemini/tmp/p/chats/${session.id}`;
    const forms = pick([["json"], ["jsonl"], ["json", "jsonl"]], random);
    if (forms.includes("json")) files[`${path}.json`] = JSON.stringify({ ...head, messages });
    if (forms.includes("jsonl")) files[`${path}.jsonl`] = [head, ...messages.flatMap((one) => [one, one])];
  }
  return files;
};

const eachFile =
  (pathOf: (session: Session) => string, linesOf: (session: Session) => readonly Line[] | string): Writer =>
  (sessions) => Object.fromEntries(sessions.map((session) => [pathOf(session), linesOf(session)]));

function agentOf({ id, kind, source }: Session): string {
  return kind === "subagent" ? id : source ? agentOf(source) : "main";
}

const WRITERS: Readonly<Record<string, Writer>> = {
  "claude-code": claudeCode,
  codex,
  opencode: opencode("opencode"),
  kilo: opencode("kilo"),
  pi: eachFile(({ id }) => `.pi/agent/sessions/p/${id}.jsonl`, piLines),
  openclaw: openClaw,
  "gemini-cli": geminiCli,
  kimi: eachFile(
    (session) => {
      const { id, kind, source } = session;
      return `.kimi-code/sessions/w/${kind === "subagent" ? source!.id : id}/agents/${
        agentOf(session)
      }/wire.jsonl`;
    },
    (session) =>
      callsOf(session).map(({ atMs, promptTokens, outputTokens }) => ({
        ...{ type: "usage.record", time: atMs, model: MODEL, usageScope: "turn" },
        usage: { inputOther: promptTokens, output: outputTokens, inputCacheRead: 0, inputCacheCreation: 0 },
      })),
  ),
  "qwen-code": eachFile(
    ({ id }) => `.qwen/projects/p/chats/${id}.jsonl`,
    (session) =>
      callsOf(session).map(({ number, reply, atMs, promptTokens, outputTokens }) => ({
        ...{ type: "assistant", uuid: `${session.id}-${number}`, parentUuid: null, sessionId: session.id },
        ...{ timestamp: iso(atMs), model: MODEL, message: { parts: [{ text: reply }] } },
        usageMetadata: { promptTokenCount: promptTokens, candidatesTokenCount: outputTokens },
      })),
  ),
  copilot: eachFile(({ id }) => `.copilot/session-state/${id}/events.jsonl`, (session) => [
    { type: "session.start", data: { sessionId: session.id } },
    ...callsOf(session).map(({ number, atMs, promptTokens, outputTokens }) => ({
      ...{ type: "session.usage_record", timestamp: iso(atMs) },
      data: {
        usage: { model: MODEL, inputTokens: promptTokens, outputTokens, apiCallId: `call-${number}` },
      },
    })),
  ]),
  cline: eachFile(({ id }) => `.cline/data/sessions/${id}/${id}.messages.json`, (session) =>
    JSON.stringify({
      sessionId: session.id,
      messages: callsOf(session).map(({ reply, atMs, promptTokens, outputTokens }) => ({
        ...{ role: "assistant", content: reply, ts: atMs, modelInfo: { id: MODEL } },
        metrics: { inputTokens: promptTokens, outputTokens },
      })),
    })),
};

for (const [agent, write] of Object.entries(WRITERS)) {
  Deno.test(`tare history: totals of random histories of ${agent} equal the generator's`, () => {
    for (let seed = 1; seed <= 60; seed++) {
      const random = seeded(seed);
      // Logs may have been deleted, whose calls others contain: then equal calls would be ambiguous.
      const isPartial = chance(random, 0.4);
      const sessions = makeSessions(random, { hasTwins: !isPartial }).filter(() =>
        !isPartial || !chance(random, 0.3)
      );
      const home = Deno.makeTempDirSync();
      try {
        const files = write(sessions, random, home);
        for (const [name, content] of Object.entries(files)) {
          const path = `${home}/${name}`.replace("/linked/", "/../../elsewhere/").replace(
            "/.claude-linked/",
            "/dotfiles/",
          );
          Deno.mkdirSync(path.slice(0, path.lastIndexOf("/")), { recursive: true });
          Deno.writeTextFileSync(
            path,
            typeof content === "string"
              ? content
              : content.map((line) => `${JSON.stringify(line)}\n`).join(""),
          );
        }
        if (agent === "claude-code") {
          Deno.mkdirSync(`${home}/.claude/projects`, { recursive: true });
          Deno.symlinkSync("../../elsewhere", `${home}/.claude/projects/linked`);
          Deno.symlinkSync("dotfiles", `${home}/.claude-linked`);
        }
        const { all, unreadable, notRead, unknownLines } = readLogs({
          places: { home, env: () => undefined },
        });
        const made = [...new Map(sessions.flatMap(callsOf).map((call) => [call.number, call])).values()];
        const sum = (of: (call: Call) => number) => made.reduce((total, call) => total + of(call), 0);
        assertEquals(
          [all.calls, all.promptTokens, all.outputTokens, unreadable, notRead, unknownLines.size],
          [
            made.length,
            sum(({ promptTokens }) => promptTokens),
            sum(({ outputTokens }) => outputTokens),
            [],
            [],
            0,
          ],
          `seed ${seed}`,
        );
      } finally {
        Deno.removeSync(home, { recursive: true });
      }
    }
  });
}
