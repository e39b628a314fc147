/**
 * Reports what this machine's agents have spent, from their logs, and the estimated saving: `deno task history`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { loadTokenizer } from "@tare/tiktoken";
import { callersPath, checkDays, flag, option, optionOr, runCommandLine } from "./command_line.ts";
import { historyPage } from "./history/history_page.ts";
import { LOG_FORMATS, readLogs } from "./history/read_logs.ts";
import { replayHistory } from "./history/replay_history.ts";
import { historyJson, historyReport, notReadText, reportText } from "./history/history_report.ts";
import { printableJson, printableText, writeAll } from "./terminal/printable_text.ts";
import { ProgressBar } from "./terminal/progress_bar.ts";

const AGENTS = LOG_FORMATS.map(({ agent }) => agent);

/** Opens a file before write permission is revoked. Returns a function that first replaces its text, then appends. */
function openOutput(path: string): (text: string) => void {
  const file = Deno.openSync(path, { write: true, create: true });
  let isNew = false;
  return (text) => {
    if (!isNew) file.truncateSync();
    isNew = true;
    writeAll(file, text);
  };
}

function readSeconds(value: string): number {
  if (value === "all") return Infinity;
  const seconds = Number(value);
  if (value.trim() !== "" && seconds >= 0) return seconds;
  throw new Error(`Cannot use --seconds ${value}: it is not a number. Use a number from 0, or all.`);
}

await runCommandLine({
  call: "deno task history",
  summary:
    `Reports what this machine's agents have spent, from their logs, and what Tare would have saved. It only reads these
logs, and sends nothing`,
  usage: ["[--agent NAME] [--project TEXT] [--since DAY] [--seconds 10]"],
  options: {
    agent: option("NAME", `${AGENTS.join(", ")}. Default: all`),
    project: option("TEXT", "Only sessions in folders whose path contains this. Default: all"),
    since: option("DAY", "First day, such as 2026-01-31. Default: any"),
    utc: flag("Days in UTC, not in the local time zone"),
    seconds: optionOr(
      "10",
      "N",
      "Time for replaying sessions, most expensive first; 0: none, all: every session.",
    ),
    json: flag("Print everything as JSON"),
    html: option("FILE", "Write everything as a self-contained page"),
    recordings: option(
      "DIR",
      "Write the replayed sessions as recordings for deno task bench savings --data DIR",
    ),
    home: option("DIR", "Home folder with the agents' logs. Default: yours"),
  },
}, async ({ values }) => {
  const { agent, project, since, utc, json, html, recordings } = values;
  if (agent !== undefined && !AGENTS.includes(agent)) {
    throw new Error(`Cannot read logs of ${agent}: it is not supported. Use one of ${AGENTS.join(", ")}.`);
  }
  checkDays({ since });
  const sinceMs = since === undefined ? undefined : Date.parse(`${since}T00:00:00${utc ? "Z" : ""}`);
  const budgetMs = 1000 * readSeconds(values.seconds);
  const home = values.home === undefined
    ? Deno.env.get("HOME") ?? Deno.env.get("USERPROFILE")
    : callersPath(values.home);
  if (home === undefined) throw new Error("Cannot find logs: HOME isn't set. Use --home DIR.");
  const page = html === undefined ? undefined : openOutput(callersPath(html));
  if (recordings !== undefined) Deno.mkdirSync(callersPath(recordings), { recursive: true });
  const files = new Map(
    recordings === undefined
      ? []
      : AGENTS.filter((name) => agent === undefined || name === agent).map((name) => [
        name,
        openOutput(callersPath(`${recordings}/${name}.jsonl`)),
      ]),
  );
  for (const write of files.values()) write("");
  await Deno.permissions.revoke({ name: "write" });

  const env = (name: string) => values.home === undefined ? Deno.env.get(name) || undefined : undefined;
  const bar = new ProgressBar(2);
  const history = readLogs({
    ...{ places: { home, env }, agent, project, sinceMs, utc },
    onRead: (bytes, total) => bar.step(bytes / total),
  });
  if (history.sessions.length === 0) {
    bar.clear();
    throw new Error(
      [
        `Cannot find a session in ${home}: no logs of ${agent ?? AGENTS.join(", ")}${
          project === undefined && since === undefined ? "" : " match --project and --since"
        }.`,
        ...notReadText(history.notRead),
        ...history.unreadable.map(({ path, why }) => `Cannot read ${path}: ${why}.`),
      ].join(" "),
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
    record: (name, line) => files.get(name)?.(`${line}\n`),
  });
  bar.clear();
  page?.(historyPage(history, played));
  console.log(
    json
      ? printableJson(historyJson(history, played))
      : printableText(reportText(historyReport(history, played))),
  );
});
