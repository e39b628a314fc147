import { type Content, type ContentPart, contentText } from "@tare/messages";
import type { AgentClient, ChosenSettings, ToldCall } from "../agent_client.ts";
import { counted, formatCount, partName } from "@tare/server/internal/format";
import { usdText } from "../dollars.ts";
import { shownPlan } from "../event_printer.ts";
import { type CommandFile, commandText, listCommands } from "./command_files.ts";

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

interface Context {
  readonly client: AgentClient;
  readonly session: string | null;
  /** The commands that are files. Default: none. */
  readonly files?: () => ReadonlyMap<string, CommandFile>;
  /** Returns what stands in a line for a text of too many lines to be edited there. Default: the text itself. */
  readonly markOf?: ((text: string) => string) | undefined;
  /** Returns a message with the images that it names. Default: without. */
  readonly withNamed?: (text: string) => Promise<Content>;
  /** Whether the line was offered to be edited. Default: it was typed. */
  readonly isOffered?: boolean;
}

type Named = Context & { readonly name: string };
type InSession = Named & { readonly session: string };

/** A command: its arguments, its text in `/help`, and what it does; a text is for the user. */
type Command = readonly [
  args: string,
  text: string,
  run: (rest: string, context: Named) => Promise<CommandOutcome | string>,
];

function inSession(
  args: string,
  text: string,
  run: (rest: string, context: InSession) => Promise<CommandOutcome | string>,
): Command {
  return [args, text, async (rest, context) => {
    const { session, name } = context;
    return session === null ? nothingSaid(name) : await run(rest, { ...context, session });
  }];
}

function nothingSaid(name: string): string {
  return `Cannot do /${name}: nothing has been said yet in this session.`;
}

const TABLE: Readonly<Record<string, Command>> = {
  new: [
    "",
    "begin another session",
    () => Promise.resolve({ says: "A new session begins with what you say next.", session: null }),
  ],
  clear: ["", "begin another one with the same settings", async (_, { client, session }) => ({
    says: "A new session with the same settings begins with what you say next.",
    session: null,
    ...(session !== null && { settings: await client.settings(session) }),
  })],
  sessions: [
    "[WORDS]",
    "list the newest sessions, or those in which something was said so",
    (rest, { client }) => listSessions(client, rest),
  ],
  session: [
    "ID",
    "go on with this one, by its id or the beginning of it",
    (rest, { client }) => findSession(client, rest),
  ],
  rename: inSession(
    "TITLE",
    "call the session so",
    async (rest, { client, session }) =>
      rest === ""
        ? "Cannot rename the session: /rename needs a title."
        : `The session is called: ${await client.rename(session, rest)}`,
  ),
  fork: inSession("", "go on in a copy; this session stays as it is", async (_, { client, session }) => ({
    says: copied(session),
    session: (await client.fork(session)).session.id,
  })),
  retry: inSession("", "say the last message again, in a copy that ends before it", sayAgain),
  edit: inSession("[TEXT]", "say it otherwise: with this text, or change the one that was said", sayAgain),
  cost: inSession("", "what the session has cost, and its newest turn", cost),
  model: [
    "[NAME]",
    "the model that the next turns ask, or ask this one",
    async (rest, context) =>
      /\s/.test(rest)
        ? `Cannot choose "${rest}": the name of a model has no spaces. /effort sets how much it reasons.`
        : await chooseModel(context, rest === "" ? {} : { model: rest }),
  ],
  effort: [
    "[LEVEL]",
    "how much it reasons, or let it reason so much; default is as it likes",
    (rest, context) => chooseModel(context, rest === "" ? {} : { effort: rest === "default" ? null : rest }),
  ],
  quote: inSession("", "what the next request would cost, and without what could leave", quote),
  compact: inSession(
    "",
    "let all leave that may, with your next message; first it says what that costs",
    compact,
  ),
  plan: inSession("", "what the agent means to do, and how far it is", async (_, { client, session }) => {
    const { plan } = await client.session(session);
    return plan ? shownPlan(plan).join("\n") : "The agent has made no plan.";
  }),
  results: inSession(
    "",
    "the results of tools, by number, and what of them the model still sees",
    listResults,
  ),
  keep: inSession(
    "NUMBER",
    "bring this one back at the next rewrite, and keep it",
    pin,
  ),
  "let-go": inSession(
    "NUMBER",
    "let this one leave at the next rewrite",
    pin,
  ),
  changes: inSession("", "what each turn has changed of files", listChanges),
  undo: inSession(
    "[TURN]",
    "put files back as they were before the newest turn that changed some, or before this one",
    putBack,
  ),
  back: inSession(
    "[TURN]",
    "the same, and go on in a new session from before that turn",
    putBack,
  ),
  redo: inSession(
    "",
    'take the last undo back; with "force" behind it this and undo overwrite what was changed since',
    putBack,
  ),
  warm: inSession(
    "[MINUTES]",
    "keep the prompt in the provider's cache for an hour, or so long, while nobody says anything",
    keepWarm,
  ),
  quit: [
    "",
    "leave (or Ctrl-D); the session stays. Ctrl-C stops the turn",
    () => Promise.resolve({ says: "", quits: true }),
  ],
};

export const COMMAND_NAMES: readonly string[] = ["help", ...Object.keys(TABLE)];

/** What `/help` prints. */
export const COMMANDS = `${
  Object.entries(TABLE).map(([name, [args, text]]) => `${`/${name} ${args}`.padEnd(18)} ${text}`).join("\n")
}

@path names a file (Tab completes it), @picture.png sends a picture. A line that ends with \\ goes on in the next one;
what you paste is one message.`;

/** Runs the command of a line that begins with `/`. @throws {Error} with a sentence for users if the server refuses. */
export async function chatCommand(line: string, context: Context): Promise<CommandOutcome> {
  const [, name = "", rest = ""] = /^\/(\S*)\s*([^]*?)\s*$/.exec(line) ?? [];
  if (name === "help") return { says: await help(context) };
  if (Object.hasOwn(TABLE, name)) {
    const done = await TABLE[name]![2](rest, { ...context, name });
    return typeof done === "string" ? { says: done } : done;
  }
  const file = context.files?.().get(name.normalize());
  if (!file) return { says: `Cannot do /${name}: there is no such command. /help lists them.` };
  return { says: `By ${file.path}:`, input: await commandText(file, rest) };
}

async function help({ files = () => new Map() }: Context): Promise<string> {
  const all = [...files().values()];
  const isHidden = ({ name }: CommandFile) => COMMAND_NAMES.includes(name);
  const hidden = all.filter(isHidden).map(({ name, path }) =>
    `${path} isn't done: /${name} is a command of the chat.`
  );
  const listed = await listCommands(all.filter((file) => !isHidden(file)));
  return [COMMANDS, "", ...listed, ...hidden].join("\n").trimEnd();
}

function copied(session: string): string {
  return `A copy goes on; files stay as they are. Back to the session before: /session ${
    session.slice(0, 8)
  }`;
}

/** Says the last message again or otherwise, in a copy that ends before it; or offers it to be edited. */
async function sayAgain(rest: string, context: InSession): Promise<CommandOutcome | string> {
  const { client, session, name, markOf, withNamed = (text) => Promise.resolve(text) } = context;
  const last = await client.lastQuestion(session);
  if (!last) return nothingSaid(name);
  const { place, content } = last;
  if (name === "edit" && rest === "") {
    const text = contentText(content);
    const isLong = text.split("\n").length > MOST_EDITED_LINES;
    const shown = isLong && markOf ? markOf(text) : text.replaceAll("\n", LINE_BREAK);
    const named = attachedTo(await withNamed(text));
    const marks = attachedTo(content).flatMap((part, at) => includes(named, part) ? [] : [markAt(at, part)]);
    return { says: "", typed: ["/edit", shown, ...marks].join(" ") };
  }
  const input = name === "edit"
    ? await changed(content, rest.replaceAll(LINE_BREAK, "\n"), { ...context, withNamed })
    : content;
  return { says: copied(session), session: (await client.fork(session, place)).session.id, input };
}

type Attached = Exclude<ContentPart, { readonly type: "text" | "refusal" }>;

function attachedTo(content: Content): readonly Attached[] {
  if (typeof content === "string") return [];
  return content.filter((part) => part.type !== "text" && part.type !== "refusal");
}

/** What stands for it in a line, and takes it out of the message when it is taken out of the line. */
function markAt(at: number, part: Attached): string {
  return `[${partName(part)} ${at + 1}]`;
}

function includes(all: readonly Attached[], part: Attached): boolean {
  const text = JSON.stringify(part);
  return all.some((one) => JSON.stringify(one) === text);
}

/** A message with another text. What went with it stays, unless its mark or name is no longer where it stood. */
async function changed(
  content: Content,
  line: string,
  { withNamed, isOffered = false }: Pick<Context, "isOffered"> & Required<Pick<Context, "withNamed">>,
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

async function cost(_: string, { client, session }: InSession): Promise<string> {
  const calls = await client.calls(session);
  const newest = calls.at(-1);
  if (!newest) return "No call has been made yet in this session.";
  const priceOf = (of: readonly (Pick<ToldCall, "usd" | "tokenUnits"> | null)[]) => {
    if (of.every((one) => one?.usd != null)) return usdText(sum(of, (one) => one?.usd ?? 0));
    return `${formatCount(sum(of, (one) => one?.tokenUnits ?? 0))} token units`;
  };
  const told = (of: readonly ToldCall[]) =>
    `${priceOf(of)} for ${counted(of.length, "call")}: ${
      formatCount(sum(of, ({ promptTokens }) => promptTokens))
    } ` +
    `prompt tokens, of these ${
      formatCount(sum(of, ({ cachedTokens }) => cachedTokens))
    } from the cache, and ` +
    `${formatCount(sum(of, ({ outputTokens }) => outputTokens))} written`;
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

async function compact(rest: string, { client, session }: InSession): Promise<CommandOutcome | string> {
  if (rest === "now") return { says: "All that may leave leaves with your next message.", leavesNow: true };
  const { asIs, rewritten, alive } = await client.quote(session);
  const tokens = asIs.promptTokens - rewritten.promptTokens;
  if (tokens <= 0) return "Nothing may leave now: of this session the model sees only what it needs.";
  const costs = (quoted: typeof asIs) =>
    formatCount(alive * quoted.warmTokenUnits + (1 - alive) * quoted.coldTokenUnits);
  return `${formatCount(tokens)} of ${
    formatCount(asIs.promptTokens)
  } tokens may leave; the model can recall them. ` +
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

async function findSession(client: AgentClient, given: string): Promise<CommandOutcome | string> {
  if (given === "") return "Cannot change the session: /session needs an id, as /sessions lists them.";
  const found = (await client.listSessions("")).filter(({ id }) => id.startsWith(given));
  if (found.length > 1) return `Cannot change the session: ${found.length} ids begin with ${given}.`;
  // An older one isn't in the list; its whole id is right.
  const session = found[0]?.id ?? given;
  const questions = await client.questions(session);
  return { says: questions.map((text) => `› ${text}`).join("\n"), session };
}

async function chooseModel(
  { client, session: given }: Context,
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

async function quote(_: string, { client, session }: InSession): Promise<string> {
  const { asIs, rewritten, alive } = await client.quote(session);
  const told = ({ promptTokens, warmTokenUnits, coldTokenUnits }: typeof asIs) =>
    `${formatCount(promptTokens)} tokens; costs ${
      formatCount(warmTokenUnits)
    } token units from a warm cache, ` +
    `${formatCount(coldTokenUnits)} from a cold one`;
  return `as it is:            ${told(asIs)}\nwithout what may go: ${told(rewritten)}\n` +
    `The cache is warm with probability ${alive.toFixed(2)}.`;
}

async function listResults(_: string, { client, session }: InSession): Promise<string> {
  const { blocks } = await client.prompt(session);
  const results = blocks.filter(({ role, place }) => role === "tool" && place !== null);
  if (results.length === 0) return "No tool has given a result yet.";
  return results.map(({ place, tool, tokens, originalTokens, state, pin }) =>
    `${String(place).padStart(4)}  ${tool}, ${state}: ${formatCount(tokens)} of ${
      formatCount(originalTokens)
    } tokens` +
    (pin === null ? "" : `; ${pin.wish === "keep" ? "kept" : "let go"}, ${pin.state}`)
  ).join("\n");
}

async function pin(place: string, { client, session, name }: InSession): Promise<string> {
  if (!/^\d+$/.test(place)) {
    return `Cannot do this to ${JSON.stringify(place)}: a number is needed, as /results lists them.`;
  }
  const { state } = await client.pin(session, Number(place), name === "keep" ? "keep" : "let_go");
  const [done, waits] = name === "keep"
    ? ["stays", "comes back at the next rewrite, and stays"]
    : ["has left", "leaves at the next rewrite"];
  return `Result ${place} ${state === "done" ? done : waits}.`;
}

async function listChanges(_: string, { client, session }: InSession): Promise<string> {
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
  rest: string,
  { client, session, name }: InSession,
): Promise<CommandOutcome | string> {
  const [, turn = "", force] = /^(\d*)\s*(force)?$/.exec(rest) ?? [];
  if (rest !== "" && turn === "" && !force || turn !== "" && name === "redo") {
    const takes = name === "redo"
      ? "it takes nothing but"
      : "it takes a turn's number, as /changes lists them, and";
    return `Cannot do /${name} ${rest}: ${takes} "force".`;
  }
  const body = { ...(turn !== "" && { turn: Number(turn) }), ...(force && { force: true }) };
  if (name === "redo") return saysOf("made again", await client.redo(session, body));
  const done = await client.undo(session, { ...body, conversation: name === "back" });
  const says = saysOf("put back", done);
  if (!done.session) return says;
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

async function keepWarm(minutes: string, { client, session }: InSession): Promise<string> {
  if (!/^\d*$/.test(minutes)) {
    return `Cannot keep the prompt warm for ${JSON.stringify(minutes)}: a number of minutes is needed.`;
  }
  const { until, maxUsd } = await client.keepWarm(session, minutes === "" ? 60 : Number(minutes));
  return `The prompt is kept warm until ${until} at most, for at most ${usdText(maxUsd)}.`;
}
