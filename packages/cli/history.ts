/**
 * Says what the agents on this machine have spent, by their own logs, and what Tare would have made of it:
 * `deno task history`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { resolve } from "@std/path";
import { loadTokenizer } from "@tare/tiktoken";
import { commandLine } from "./command_line.ts";
import { historyPage } from "./history/history_page.ts";
import { LOG_FORMATS, readLogs } from "./history/read_logs.ts";
import { replayHistory } from "./history/replay_history.ts";
import { historyJson, historyReport, reportText } from "./history/history_report.ts";
import { shownJson, shownText } from "./terminal/shown_text.ts";
import { ProgressBar } from "./terminal/waiting.ts";

const AGENTS = LOG_FORMATS.map(({ agent }) => agent);

const HELP =
  `Says what the agents on this machine have spent, by the logs that they keep, and what Tare would have made of the
same sessions. It only reads, and nothing leaves the machine:

  deno task history [--agent NAME] [--project TEXT] [--since DAY] [--seconds 10]

  --agent NAME      ${AGENTS.join(", ")}. Default: all
  --project TEXT    Only sessions of folders whose path holds this. Default: all
  --since DAY       The first day, by UTC, such as 2026-01-31. Default: any
  --seconds N       How long sessions are played again, the dearest first; 0: not at all, all: until the last. Default: 10
  --json            Print everything as JSON
  --html FILE       Write everything as a page, which needs nothing beside it
  --recordings DIR  Write the sessions that are played as recordings, for deno task bench savings --data DIR
  --home DIR        The folder in which agents keep their logs. Default: yours`;

/** A file that is written when all is read. It is opened before, so that nothing else can be written from then on. */
interface Output {
  readonly write: (text: string) => void;
}

function openOutput(path: string): Output {
  const file = Deno.openSync(path, { write: true, create: true });
  const encoder = new TextEncoder();
  let isEmpty = false;
  return {
    write(text) {
      if (!isEmpty) file.truncateSync();
      isEmpty = true;
      const bytes = encoder.encode(text);
      for (let at = 0; at < bytes.length;) at += file.writeSync(bytes.subarray(at));
    },
  };
}

function readSeconds(value: string): number {
  if (value === "all") return Infinity;
  const seconds = Number(value);
  if (value.trim() !== "" && seconds >= 0) return seconds;
  throw new Error(`Cannot use --seconds ${value}: it must be a number from 0, or all.`);
}

function readSince(day: string | undefined): number | undefined {
  if (day === undefined) return undefined;
  const time = /^\d{4}-\d{2}-\d{2}$/.test(day) ? Date.parse(day) : NaN;
  if (Number.isFinite(time)) return time;
  throw new Error(`Cannot use --since ${day}: it must be a day, such as 2026-01-31.`);
}

try {
  const { values } = commandLine({
    options: {
      agent: { type: "string" },
      project: { type: "string" },
      since: { type: "string" },
      seconds: { type: "string", default: "10" },
      json: { type: "boolean" },
      html: { type: "string" },
      recordings: { type: "string" },
      home: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  const { agent, project, since, json, html, recordings, help } = values;
  if (help) {
    console.log(HELP);
    Deno.exit(0);
  }
  if (agent !== undefined && !AGENTS.includes(agent)) {
    throw new Error(`Cannot read logs of ${agent}: there are readers for ${AGENTS.join(", ")}.`);
  }
  const sinceMs = readSince(since);
  const budgetMs = 1000 * readSeconds(values.seconds);
  // A task runs in the project's folder, wherever it was started.
  const folder = Deno.env.get("INIT_CWD") || ".";
  const home = values.home === undefined
    ? Deno.env.get("HOME") ?? Deno.env.get("USERPROFILE")
    : resolve(folder, values.home);
  if (home === undefined) throw new Error("Cannot find logs: HOME isn't set. Say --home DIR.");
  const page = html === undefined ? undefined : openOutput(resolve(folder, html));
  if (recordings !== undefined) Deno.mkdirSync(resolve(folder, recordings), { recursive: true });
  const files = new Map(
    recordings === undefined
      ? []
      : AGENTS.filter((name) => agent === undefined || name === agent).map((name) => [
        name,
        openOutput(resolve(folder, recordings, `${name}.jsonl`)),
      ]),
  );
  for (const file of files.values()) file.write("");
  // From here on it can only read.
  await Deno.permissions.revoke({ name: "write" });

  const env = (name: string) => values.home === undefined ? Deno.env.get(name) || undefined : undefined;
  const bar = new ProgressBar(2);
  const history = readLogs({
    ...{ places: { home, env }, agent, project, sinceMs },
    onRead: (bytes, total) => bar.step(bytes / total),
  });
  if (history.sessions.length === 0) {
    bar.clear();
    throw new Error(
      `Cannot find a session in ${home}: looked for logs of ${agent ?? AGENTS.join(", ")}${
        project === undefined && since === undefined ? "" : ", by --project and --since"
      }.`,
    );
  }
  const { count: countTokens } = await loadTokenizer();
  let done = 0;
  const played = await replayHistory(history.sessions, {
    countTokens,
    budgetMs,
    onSession(share) {
      bar.step(share - done);
      done = share;
    },
    record: (name, line) => files.get(name)?.write(`${line}\n`),
  });
  bar.clear();
  page?.write(historyPage(history, played));
  console.log(
    json ? shownJson(historyJson(history, played)) : shownText(reportText(historyReport(history, played))),
  );
} catch (error) {
  console.error(shownText((error as Error).message));
  Deno.exit(1);
}
