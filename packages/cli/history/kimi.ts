import { asRecord } from "@tare/wire/internal";
import { fingerprint } from "./copies.ts";
import {
  filesIn,
  type LineReader,
  lineReader,
  type LogFormat,
  loggedText,
  timeOf,
  usageText,
} from "./log.ts";
import { loggedUsage, tokensOf } from "./spent.ts";

/** Version of the event log that is read. */
const VERSION = [1, 5];

/** Reads the usage of each request, by a turn or by the session. Conversations aren't read. */
const readEvents: LineReader = (logOf, { path, newer }) => {
  const log = logOf();
  const [session = "", agent = ""] = /\/([^/]+)(?:\/agents\/([^/]+))?\/wire\.jsonl$/.exec(path)?.slice(1) ??
    [];
  log.name({ id: agent === "" || agent === "main" ? session : `${session}/${agent}`, group: session });
  let calls = 0;
  return (line) => {
    const { type, model, time, timestamp, usage, message, environmentDisclosure, cwd } = line;
    if (type === "metadata" && isNewer(line.protocol_version)) newer(`version ${line.protocol_version}`);
    log.name({ project: asRecord(environmentDisclosure)?.cwd ?? cwd });
    const { type: event, payload } = asRecord(message) ?? {};
    const { token_usage: older, message_id: reply } = asRecord(payload) ?? {};
    const isOlder = event === "StatusUpdate" && older !== undefined && older !== null;
    if (type !== "usage.record" && !isOlder) return typeof type === "string" || typeof event === "string";
    const took = asRecord(isOlder ? older : usage);
    if (!took) return false;
    const ts = isOlder ? timeOf(Number(timestamp) * 1000) : timeOf(time);
    const tokens = loggedUsage({
      uncached: tokensOf(took.inputOther ?? took.input_other),
      read: took.inputCacheRead ?? took.input_cache_read,
      write: took.inputCacheCreation ?? took.input_cache_creation,
      output: tokensOf(took.output),
    });
    const id = loggedText(reply, `${calls++}`);
    const when = ts ?? `${session} ${id}`;
    log.call({
      // A later status repeats the last one.
      ...{
        id: `${id} ${usageText(tokens)}`,
        model: loggedText(model).replace(/^kimi-code\//, ""),
        usage: tokens,
        ts,
      },
      fingerprints: () => ({ own: [fingerprint(when, agent, loggedText(reply), usageText(tokens))] }),
    });
    return true;
  };
};

function isNewer(version: unknown): boolean {
  const [major = 0, minor = 0] = String(version).split(".").map(Number);
  return major > VERSION[0]! || major === VERSION[0] && minor > VERSION[1]!;
}

/** Kimi Code, and Kimi CLI before it: an event log per agent of a session. */
export const KIMI: LogFormat = {
  agent: "kimi",
  *find(places) {
    const { home, env } = places;
    const newer = env("KIMI_CODE_HOME") ?? `${home}/.kimi-code`;
    const older = env("KIMI_SHARE_DIR") ?? `${home}/.kimi`;
    for (const folder of [newer, older]) yield* filesIn(`${folder}/sessions`, /^wire\.jsonl$/, places);
  },
  read: lineReader(readEvents),
};
