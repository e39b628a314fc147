import { type Content, type ContentPart, contentText } from "@tare/messages";
import type { AgentClient, ChosenSettings, ToldCall } from "../agent_client.ts";
import { count, counted } from "@tare/server/internal/format";
import { usdText } from "../dollars.ts";
import { shownPlan } from "../event_printer.ts";
import { type CommandFile, commandText, listCommands } from "./command_files.ts";

/** What `/help` says. */
export const COMMANDS = `/new               begin another session
/clear             begin another one with the same settings
/sessions [WORDS]  list the newest sessions, or those in which something was said so
/session ID        go on with this one, by its id or the beginning of it
/rename TITLE      call the session so
/fork              go on in a copy; this session stays as it is
/retry             say the last message again, in a copy that ends before it
/edit [TEXT]       say it otherwise: with this text, or change the one that was said
/cost              what the session has cost, and its newest turn
/model [NAME]      the model that the next turns ask, or ask this one
/effort [LEVEL]    how much it reasons, or let it reason so much; default is as it likes
/quote             what the next request would cost, and without what could leave
/compact           let all leave that may, with your next message; first it says what that costs
/plan              what the agent means to do, and how far it is
/results           the results of tools, by number, and what of them the model still sees
/keep NUMBER       bring this one back at the next rewrite, and keep it
/let-go NUMBER     let this one leave at the next rewrite
/changes           what each turn has changed of files
/undo [TURN]       put files back as they were before the newest turn that changed some, or before this one
/back [TURN]       the same, and go on in a new session from before that turn
/redo              take the last undo back; with "force" behind it this and undo overwrite what was changed since
/warm [MINUTES]    keep the prompt in the provider's cache for an hour, or so long, while nobody says anything
/quit              leave (or Ctrl-D); the session stays. Ctrl-C stops the turn

@path names a file (Tab completes it), @picture.png sends a picture. A line that ends with \\ goes on in the next one;
what you paste is one message.`;

/** The names of the commands. */
export const COMMAND_NAMES: readonly string[] = [
  "help",
  ...COMMANDS.matchAll(/^\/([\w-]+)/gm).map(([, name]) => name!),
];

/** What stands for a line break in a line that is changed. */
const LINE_BREAK = "↵";

/** A message of more lines isn't put into the line to be changed: it would fill the screen. */
const MOST_EDITED_LINES = 50;

interface CommandOutcome {
  readonly says: string;
  /** The session that the chat goes on with; null for a new one. Default: the same. */
  readonly session?: string | null;
  /** What the next new session is made with. */
  readonly settings?: ChosenSettings;
  /** What is said next, as the person. */
  readonly input?: Content;
  /** What stands in the line, to be changed. */
  readonly typed?: string;
  /** Whether all that may leave the prompt leaves with what is said next. */
  readonly leavesNow?: boolean;
  readonly quits?: boolean;
}

type PutBack = Awaited<ReturnType<AgentClient["redo"]>>;

/**
 * Does what a line that begins with `/` says.
 *
 * @throws {Error} with a sentence for people if the server refuses.
 */
export async function chatCommand(
  line: string,
  {
    client,
    session,
    files = () => new Map(),
    markOf,
    withNamed = (text) => Promise.resolve(text),
    isOffered = false,
  }: {
    readonly client: AgentClient;
    readonly session: string | null;
    /** The commands that are files. Default: there are none. */
    readonly files?: () => ReadonlyMap<string, CommandFile>;
    /** What stands in a line for a text of too many lines to be changed there. Default: the text itself. */
    readonly markOf?: ((text: string) => string) | undefined;
    /** What is said, with the pictures that it names. Default: none is looked at. */
    readonly withNamed?: (text: string) => Promise<Content>;
    /** Whether the line stood there to be changed. Default: it was typed. */
    readonly isOffered?: boolean;
  },
): Promise<CommandOutcome> {
  const [, name = "", rest = ""] = /^\/(\S*)\s*([^]*?)\s*$/.exec(line) ?? [];
  const inSession = async (say: (session: string) => Promise<string>): Promise<CommandOutcome> => ({
    says: session === null
      ? `Cannot do /${name}: nothing has been said yet in this session.`
      : await say(session),
  });
  switch (name) {
    case "help": {
      const all = [...files().values()];
      const isHidden = ({ name }: CommandFile) => COMMAND_NAMES.includes(name);
      const hidden = all.filter(isHidden).map(({ name, path }) =>
        `${path} isn't done: /${name} is a command of the chat.`
      );
      const listed = await listCommands(all.filter((file) => !isHidden(file)));
      return { says: [COMMANDS, "", ...listed, ...hidden].join("\n").trimEnd() };
    }
    case "clear":
      return {
        says: "A new session with the same settings begins with what you say next.",
        session: null,
        ...(session !== null && { settings: await client.settings(session) }),
      };
    case "rename":
      return await inSession(async (session) =>
        rest === ""
          ? "Cannot rename the session: /rename needs a title."
          : `The session is called: ${await client.rename(session, rest)}`
      );
    case "fork":
    case "retry":
    case "edit":
      if (session === null) return await inSession(() => Promise.resolve(""));
      return await goOn(client, { session, command: name, rest, markOf, withNamed, isOffered });
    case "cost":
      return await inSession((session) => cost(client, session));
    case "compact":
      if (session === null || rest !== "now") return await inSession((session) => compact(client, session));
      return { says: "All that may leave leaves with your next message.", leavesNow: true };
    case "plan":
      return await inSession(async (session) => {
        const { plan } = await client.session(session);
        return plan ? shownPlan(plan).join("\n") : "The agent has made no plan.";
      });
    case "new":
      return { says: "A new session begins with what you say next.", session: null };
    case "quit":
      return { says: "", quits: true };
    case "sessions":
      return { says: await listSessions(client, rest) };
    case "session":
      return await findSession(client, rest);
    case "model":
      if (/\s/.test(rest)) {
        return {
          says:
            `Cannot choose "${rest}": the name of a model has no spaces. /effort sets how much it reasons.`,
        };
      }
      return await chooseModel(client, session, rest === "" ? {} : { model: rest });
    case "effort":
      return await chooseModel(
        client,
        session,
        rest === "" ? {} : { effort: rest === "default" ? null : rest },
      );
    case "quote":
      return await inSession((session) => quote(client, session));
    case "results":
      return await inSession((session) => listResults(client, session));
    case "keep":
      return await inSession((session) => pin(client, { session, place: rest, wish: "keep" }));
    case "let-go":
      return await inSession((session) => pin(client, { session, place: rest, wish: "let_go" }));
    case "changes":
      return await inSession((session) => listChanges(client, session));
    case "undo":
    case "back":
    case "redo":
      if (session === null) return await inSession(() => Promise.resolve(""));
      return await putBack(client, { session, command: name, rest });
    case "warm":
      return await inSession((session) => keepWarm(client, session, rest));
    default: {
      const file = files().get(name.normalize());
      if (!file) return { says: `Cannot do /${name}: there is no such command. /help lists them.` };
      return { says: `By ${file.path}:`, input: await commandText(file, rest) };
    }
  }
}

/** Goes on in a copy of a session: whole, or from before the last message, to say that again or otherwise. */
async function goOn(
  client: AgentClient,
  { session, command, rest, markOf, withNamed, isOffered }: {
    readonly session: string;
    readonly command: "fork" | "retry" | "edit";
    readonly rest: string;
    readonly markOf: ((text: string) => string) | undefined;
    readonly withNamed: (text: string) => Promise<Content>;
    readonly isOffered: boolean;
  },
): Promise<CommandOutcome> {
  const goesOn = "A copy goes on; files stay as they are. " +
    `Back to the session before: /session ${session.slice(0, 8)}`;
  if (command === "fork") {
    const { session: { id } } = await client.fork(session);
    return { says: goesOn, session: id };
  }
  const last = await client.lastQuestion(session);
  if (!last) return { says: `Cannot do /${command}: nothing has been said yet in this session.` };
  const { place, content } = last;
  if (command === "edit" && rest === "") {
    const text = contentText(content);
    const isLong = text.split("\n").length > MOST_EDITED_LINES;
    const shown = isLong && markOf ? markOf(text) : text.replaceAll("\n", LINE_BREAK);
    const named = attachedTo(await withNamed(text));
    const marks = attachedTo(content).flatMap((part, at) => includes(named, part) ? [] : [markAt(at, part)]);
    return { says: "", typed: ["/edit", shown, ...marks].join(" ") };
  }
  const input = command === "edit"
    ? await changed(content, rest.replaceAll(LINE_BREAK, "\n"), { withNamed, isOffered })
    : content;
  const { session: { id } } = await client.fork(session, place);
  return { says: goesOn, session: id, input };
}

type Attached = Exclude<ContentPart, { readonly type: "text" | "refusal" }>;

const ATTACHED = {
  image_url: "picture",
  input_audio: "recording",
  video_url: "video",
  file: "file",
} as const;

function attachedTo(content: Content): readonly Attached[] {
  if (typeof content === "string") return [];
  return content.filter((part) => part.type !== "text" && part.type !== "refusal");
}

/** What stands for it in a line, and takes it out of the message when it is taken out of the line. */
function markAt(at: number, { type }: Attached): string {
  return `[${ATTACHED[type]} ${at + 1}]`;
}

function includes(all: readonly Attached[], part: Attached): boolean {
  const text = JSON.stringify(part);
  return all.some((one) => JSON.stringify(one) === text);
}

/** A message with another text. What went with it stays, unless its mark or name is no longer where it stood. */
async function changed(
  content: Content,
  line: string,
  { withNamed, isOffered }: {
    readonly withNamed: (text: string) => Promise<Content>;
    readonly isOffered: boolean;
  },
): Promise<Content> {
  const before = attachedTo(content);
  const isMarked = (part: Attached, at: number) => line.includes(markAt(at, part));
  const staying = isOffered || before.some(isMarked) ? before.filter(isMarked) : before;
  const text = before.reduce((rest, part, at) => rest.replace(markAt(at, part), ""), line).trim();
  const said = await withNamed(text);
  const named = attachedTo(said);
  const kept = staying.filter((part) => !includes(named, part));
  if (kept.length === 0) return said;
  return [...(text === "" ? [] : [{ type: "text", text } as const]), ...kept, ...named];
}

async function cost(client: AgentClient, session: string): Promise<string> {
  const calls = await client.calls(session);
  const newest = calls.at(-1);
  if (!newest) return "No call has been made yet in this session.";
  const priceOf = (of: readonly (Pick<ToldCall, "usd" | "tokenUnits"> | null)[]) => {
    if (of.every((one) => one?.usd != null)) return usdText(sum(of, (one) => one?.usd ?? 0));
    return `${count(sum(of, (one) => one?.tokenUnits ?? 0))} token units`;
  };
  const told = (of: readonly ToldCall[]) =>
    `${priceOf(of)} for ${counted(of.length, "call")}: ${
      count(sum(of, ({ promptTokens }) => promptTokens))
    } ` +
    `prompt tokens, of these ${count(sum(of, ({ cachedTokens }) => cachedTokens))} from the cache, and ` +
    `${count(sum(of, ({ outputTokens }) => outputTokens))} written`;
  const without = calls.map(({ without }) => without);
  return [
    `the session:  ${told(calls)}`,
    `newest turn:  ${told(calls.filter(({ turn }) => turn === newest.turn))}`,
    ...(without.includes(null) ? [] : [`Without Tare the session would have cost ${priceOf(without)}.`]),
  ].join("\n");
}

function sum<T>(all: readonly T[], of: (one: T) => number): number {
  return all.reduce((sum, one) => sum + of(one), 0);
}

async function compact(client: AgentClient, session: string): Promise<string> {
  const { asIs, rewritten, alive } = await client.quote(session);
  const tokens = asIs.promptTokens - rewritten.promptTokens;
  if (tokens <= 0) return "Nothing may leave now: of this session the model sees only what it needs.";
  const costs = (quoted: typeof asIs) =>
    count(alive * quoted.warmTokenUnits + (1 - alive) * quoted.coldTokenUnits);
  return `${count(tokens)} of ${count(asIs.promptTokens)} tokens may leave; the model can recall them. ` +
    `Your next message would then cost about ${costs(rewritten)} token units in place of ${costs(asIs)}.\n` +
    "By itself all leaves as soon as that pays. /compact now lets it leave with your next message.";
}

async function listSessions(client: AgentClient, search: string): Promise<string> {
  const sessions = await client.listSessions(search);
  if (sessions.length === 0) {
    return search === "" ? "There is no session yet." : `Nowhere was said: ${search}`;
  }
  return sessions.map(({ id, title, turns, ledger: { usd } }) =>
    `${id}  ${counted(turns, "turn")}${usd === undefined ? "" : `, ${usdText(usd)}`}  ${title}`
  ).join("\n");
}

async function findSession(client: AgentClient, given: string): Promise<CommandOutcome> {
  if (given === "") {
    return { says: "Cannot change the session: /session needs an id, as /sessions lists them." };
  }
  const found = (await client.listSessions("")).filter(({ id }) => id.startsWith(given));
  if (found.length > 1) {
    return { says: `Cannot change the session: ${found.length} ids begin with ${given}.` };
  }
  // An older one isn't in the list; its whole id is right.
  const session = found[0]?.id ?? given;
  const questions = await client.questions(session);
  return { says: questions.map((text) => `› ${text}`).join("\n"), session };
}

async function chooseModel(
  client: AgentClient,
  given: string | null,
  wanted: Parameters<AgentClient["choose"]>[1],
): Promise<CommandOutcome> {
  const session = given ?? await client.createSession();
  const { session: { model, effort = "its own", turns }, efforts } = await client.choose(session, wanted);
  const known = efforts === undefined
    ? ""
    : ` (there is ${efforts.length === 0 ? "nothing to choose" : efforts.join(", ")})`;
  const isAnother = wanted.model !== undefined && turns > 0;
  const cache = isAnother
    ? "\nIts cache holds what it was sent itself, and nothing of what other models were."
    : "";
  return { says: `model ${model}, effort ${effort}${known}${cache}`, session };
}

async function quote(client: AgentClient, session: string): Promise<string> {
  const { asIs, rewritten, alive } = await client.quote(session);
  const told = ({ promptTokens, warmTokenUnits, coldTokenUnits }: typeof asIs) =>
    `${count(promptTokens)} tokens; costs ${count(warmTokenUnits)} token units from a warm cache, ` +
    `${count(coldTokenUnits)} from a cold one`;
  return `as it is:            ${told(asIs)}\nwithout what may go: ${told(rewritten)}\n` +
    `The cache is warm with probability ${alive.toFixed(2)}.`;
}

async function listResults(client: AgentClient, session: string): Promise<string> {
  const { blocks } = await client.prompt(session);
  const results = blocks.filter(({ role, place }) => role === "tool" && place !== null);
  if (results.length === 0) return "No tool has given a result yet.";
  return results.map(({ place, tool, tokens, originalTokens, state, pin }) =>
    `${String(place).padStart(4)}  ${tool}, ${state}: ${count(tokens)} of ${count(originalTokens)} tokens` +
    (pin === null ? "" : `; ${pin.wish === "keep" ? "kept" : "let go"}, ${pin.state}`)
  ).join("\n");
}

async function pin(
  client: AgentClient,
  { session, place, wish }: {
    readonly session: string;
    readonly place: string;
    readonly wish: "keep" | "let_go";
  },
): Promise<string> {
  if (!/^\d+$/.test(place)) {
    return `Cannot do this to ${JSON.stringify(place)}: a number is needed, as /results lists them.`;
  }
  const { state } = await client.pin(session, Number(place), wish);
  const done = wish === "keep" ? "stays" : "has left";
  const waits = wish === "keep" ? "comes back at the next rewrite, and stays" : "leaves at the next rewrite";
  return `Result ${place} ${state === "done" ? done : waits}.`;
}

async function listChanges(client: AgentClient, session: string): Promise<string> {
  const turns = await client.changes(session);
  if (turns.length === 0) return "No turn has changed files that are kept on the server's machine.";
  return turns.map(({ turn, files, isUndone, notCovered }) =>
    [
      `turn ${turn}${isUndone ? ", undone" : ""}: ${counted(files.length, "file")}`,
      ...told({ files, notCovered }),
    ]
      .join("\n")
  ).join("\n");
}

async function putBack(
  client: AgentClient,
  { session, command, rest }: {
    readonly session: string;
    readonly command: "undo" | "back" | "redo";
    readonly rest: string;
  },
): Promise<CommandOutcome> {
  const [, turn = "", force] = /^(\d*)\s*(force)?$/.exec(rest) ?? [];
  if (rest !== "" && turn === "" && !force || turn !== "" && command === "redo") {
    const takes = command === "redo"
      ? "it takes nothing but"
      : "it takes a turn's number, as /changes lists them, and";
    return { says: `Cannot do /${command} ${rest}: ${takes} "force".` };
  }
  const body = { ...(turn !== "" && { turn: Number(turn) }), ...(force && { force: true }) };
  if (command === "redo") return { says: saysOf("made again", await client.redo(session, body)) };
  const done = await client.undo(session, { ...body, conversation: command === "back" });
  const says = saysOf("put back", done);
  if (!done.session) return { says };
  return {
    says: `${says}\nThe conversation goes on before that turn, in session ${done.session.id}.`,
    session: done.session.id,
  };
}

function saysOf(done: string, { files, notCovered }: Pick<PutBack, "files" | "notCovered">): string {
  return [`${counted(files.length, "file")} ${done}.`, ...told({ files, notCovered })].join("\n");
}

const MOST_LISTED = 20;

function told({ files, notCovered }: Pick<PutBack, "files" | "notCovered">): readonly string[] {
  const more = files.length - MOST_LISTED;
  return [
    ...files.slice(0, MOST_LISTED).map(({ path, change }) => `  ${change.padEnd(8)} ${path}`),
    ...(more > 0 ? [`  and ${more} more`] : []),
    ...notCovered.map((sentence) => `  not covered: ${sentence}`),
  ];
}

async function keepWarm(client: AgentClient, session: string, minutes: string): Promise<string> {
  if (!/^\d*$/.test(minutes)) {
    return `Cannot keep the prompt warm for ${JSON.stringify(minutes)}: a number of minutes is needed.`;
  }
  const { until, maxUsd } = await client.keepWarm(session, minutes === "" ? 60 : Number(minutes));
  return `The prompt is kept warm until ${until} at most, for at most ${usdText(maxUsd)}.`;
}
