import { type JsonRecord, readUsage } from "@tare/wire";
import { asRecord, MESSAGES_PROTOCOL } from "@tare/wire/internal";
import { type CallFingerprints, fingerprint, textSample } from "./copies.ts";
import {
  filesIn,
  lineReader,
  listFolder,
  type LogFormat,
  loggedText,
  mayBeFolder,
  objectsIn,
  type SessionLog,
  timeOf,
} from "./log.ts";

/** Claude Code: a file per session or subagent; a line names its parent, and lines of one reply repeat its usage. */
export const CLAUDE_CODE: LogFormat = {
  agent: "claude-code",
  *find(places) {
    const { home, env } = places;
    const named = env("CLAUDE_CONFIG_DIR");
    const folders = new Set(named ? [named] : []);
    for (const { name, isDirectory } of listFolder(home, places)) {
      const path = `${home}/${name}`;
      if (/^\.claude/.test(name) && (isDirectory || mayBeFolder(path))) folders.add(path);
    }
    const newer = `${env("XDG_CONFIG_HOME") ?? `${home}/.config`}/claude`;
    for (const folder of [...folders, newer]) yield* filesIn(`${folder}/projects`, ".jsonl", places);
  },
  read: lineReader((logOf) => {
    const sides = new Map<string, string>();
    const threads = new Map<string, Thread>();
    let lines = 0;
    return (line) => {
      const name = threadOf(line, sides);
      const log = logOf(name);
      const { type, uuid, timestamp } = line;
      if (typeof type !== "string") return false;
      const ts = timeOf(timestamp);
      const id = loggedText(uuid, `line ${lines++}`);
      log.link(id, line.parentUuid ?? line.logicalParentUuid);
      log.name({ group: line.sessionId, project: line.cwd });
      if (type === "system" && line.subtype === "compact_boundary") log.compact(id);
      if (type !== "user" && type !== "assistant") return true;
      const message = asRecord(line.message);
      if (!message) return false;
      const thread = threads.get(name) ?? new Thread(name !== "");
      threads.set(name, thread);
      const isKnown = isOmitted(line, message) || takeMessage(log, message, { line, id, ts, thread });
      log.passed(ts);
      return isKnown;
    };
  }),
};

interface ReplyGroup {
  readonly name: string;
  promptTokens: number;
  userLines: number;
  prompts: number;
}

/** Groups the lines of replies, whose ids a relay may have reused, and identifies the replies. */
class Thread {
  readonly #isSide: boolean;
  readonly #groups = new Map<string, ReplyGroup>();
  #userLines = 0;
  #prompts = 0;
  #prompt = "";

  constructor(isSide: boolean) {
    this.#isSide = isSide;
  }

  user(line: JsonRecord, content: unknown): void {
    this.#userLines++;
    const blocks = typeof content === "string" ? [{ type: "text", text: content }] : objectsIn(content);
    if (line.isMeta === true || blocks.some(({ type }) => type === "tool_result")) return;
    this.#prompts++;
    this.#prompt = textSample(loggedText(blocks.find(({ type }) => type === "text")?.text));
  }

  /** Returns the name of a line's reply. A reply continues until a user line, or with the same prompt. */
  replyOf(id: string, requestId: string, promptTokens: number): string {
    const key = `${id} ${requestId}`;
    const known = this.#groups.get(key);
    const isSame = known &&
      (known.userLines === this.#userLines ||
        known.promptTokens === promptTokens && (requestId !== "" || known.prompts === this.#prompts));
    const group = isSame
      ? known
      : { name: known ? `${key} ${this.#userLines}` : key, promptTokens, userLines: 0, prompts: 0 };
    group.promptTokens = promptTokens;
    group.userLines = this.#userLines;
    group.prompts = this.#prompts;
    this.#groups.set(key, group);
    return group.name;
  }

  /** Returns fingerprints of a reply by its first line. A side conversation repeats calls with other request ids. */
  fingerprints(
    { id, requestId, ts, usage, said }: {
      readonly id: string;
      readonly requestId: string;
      readonly ts: number | undefined;
      readonly usage: string;
      readonly said: string;
    },
  ): CallFingerprints {
    const timed = fingerprint("timed", id || requestId, ts, usage, said);
    if (id === "" || requestId === "") return { own: [timed] };
    const text = [id, usage, this.#prompt, said];
    const requested = fingerprint("requested", requestId, ...text);
    const [main, side] = [fingerprint("any", ...text), fingerprint("side", ...text)];
    const own = [timed, requested, main, ...(this.#isSide ? [side] : [])];
    return { own, sought: [timed, requested, this.#isSide ? main : side] };
  }
}

function takeMessage(
  log: SessionLog,
  message: JsonRecord,
  { line, id, ts, thread }: {
    readonly line: JsonRecord;
    readonly id: string;
    readonly ts: number | undefined;
    readonly thread: Thread;
  },
): boolean {
  const { model, content } = message;
  const isUser = line.type === "user";
  const usage = isUser ? undefined : readUsage(message.usage);
  let reply = id;
  if (isUser) {
    if (!Array.isArray(content) && typeof content !== "string") return false;
    thread.user(line, content);
  } else {
    if (!usage && typeof message.id !== "string") return false;
    const names = { id: loggedText(message.id), requestId: loggedText(line.requestId) };
    const { promptTokens = 0, cachedTokens = 0 } = usage ?? {};
    reply = thread.replyOf(names.id, names.requestId, promptTokens);
    if (usage) {
      log.call({
        ...{ id: reply, model: loggedText(model), usage, ts, reply },
        fingerprints: () =>
          thread.fingerprints({
            ...names,
            ts,
            usage: `${promptTokens} ${cachedTokens}`,
            said: saidIn(content),
          }),
      });
    }
  }
  if (!isUser && !log.hasMessages) log.countReply();
  for (const part of log.hasMessages ? MESSAGES_PROTOCOL.readItem(message) : []) {
    log.addMessage(part.message, { id, ts, ...(!isUser && { reply }) });
  }
  return isUser || usage !== undefined;
}

/** Returns a sample of the first block of a reply. */
function saidIn(content: unknown): string {
  if (typeof content === "string") return textSample(content);
  const [{ type, text, thinking, name, id } = {} as JsonRecord] = objectsIn(content);
  return `${type} ${textSample(loggedText(text ?? thinking))} ${name} ${id}`;
}

/** Returns whether a line isn't part of a recorded prompt: a summary, a note, or an error. */
function isOmitted(line: JsonRecord, { model }: JsonRecord): boolean {
  return line.type === "user"
    ? line.isCompactSummary === true || line.isVisibleInTranscriptOnly === true
    : line.isApiErrorMessage === true || model === "<synthetic>";
}

/** Returns the prompt of a line: "" for the session's own, or a subagent's name or first line. */
function threadOf(
  { agentId, isSidechain, uuid, parentUuid }: JsonRecord,
  sides: Map<string, string>,
): string {
  if (typeof agentId === "string") return agentId;
  if (isSidechain !== true || typeof uuid !== "string") return "";
  const side = sides.get(loggedText(parentUuid)) ?? uuid;
  sides.set(uuid, side);
  return side;
}
