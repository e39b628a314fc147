import { type Content, type ContentPart, contentText } from "@tare/messages";
import { type AgentClient, type ChosenSettings, type ListedCall, sessionRow } from "../agent_client.ts";
import { counted, formatCount, partName } from "@tare/server/internal/format";
import { modelRows } from "../choose_model.ts";
import { usdText } from "../dollars.ts";
import { renderPlan } from "../event_printer.ts";
import { STATE_NAMES } from "../ledger_names.ts";
import { type CommandFile, commandText, listCommands } from "./command_files.ts";

const LINE_BREAK = "↵";

/** Most lines edited in place; a longer message is replaced by a mark. */
const MAX_EDITED_LINES = 50;

interface CommandOutcome {
  readonly output: string;
  /** Session of the next message; null for a new one. Default: unchanged. */
  readonly session?: string | null;
  readonly settings?: ChosenSettings;
  readonly input?: Content;
  readonly typed?: string;
  /** Whether the next message evicts everything that may be evicted. */
  readonly evictNow?: boolean;
  readonly quits?: boolean;
}

type PutBack = Awaited<ReturnType<AgentClient["redo"]>>;

interface Context {
  readonly client: AgentClient;
  readonly session: string | null;
  readonly files?: () => ReadonlyMap<string, CommandFile>;
  /** Returns the mark that replaces a long text in the line. Default: the text itself. */
  readonly markOf?: ((text: string) => string) | undefined;
  readonly withNamed?: (text: string) => Promise<Content>;
  readonly isOffered?: boolean;
}

type Named = Context & { readonly name: string };
type InSession = Named & { readonly session: string };

/** Arguments, text in `/help`, and implementation, which may return a text for the user. */
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
    return session === null ? nothingYet(name) : await run(rest, { ...context, session });
  }];
}

function nothingYet(name: string): string {
  return `Cannot run /${name}: this session has no messages yet.`;
}

const TABLE: Readonly<Record<string, Command>> = {
  new: [
    "",
    "start another session",
    () => Promise.resolve({ output: "Your next message starts a new session.", session: null }),
  ],
  clear: ["", "start another session with the same settings", async (_, { client, session }) => ({
    output: "Your next message starts a new session with the same settings.",
    session: null,
    ...(session !== null && { settings: await client.settings(session) }),
  })],
  sessions: [
    "[WORDS]",
    "list the newest sessions, or those that contain these words",
    (rest, { client }) => listSessions(client, rest),
  ],
  session: [
    "ID",
    "continue a session, by its id or the beginning of it",
    (rest, { client }) => findSession(client, rest),
  ],
  rename: inSession(
    "TITLE",
    "rename the session",
    async (rest, { client, session }) =>
      rest === ""
        ? "Cannot rename the session: /rename needs a title."
        : `The session is now named: ${await client.rename(session, rest)}`,
  ),
  fork: inSession("", "continue in a fork; this session stays unchanged", async (_, { client, session }) => ({
    output: copied(session),
    session: (await client.fork(session)).session.id,
  })),
  retry: inSession("", "send the last message again, in a fork that ends before it", sayAgain),
  edit: inSession("[TEXT]", "edit the last message, or replace it by this text, in a fork", sayAgain),
  cost: inSession("", "cost of the session and of its last turn", cost),
  model: [
    "[NAME]",
    "set the model of the next turns, or list the models and their prices",
    async (rest, context) =>
      /\s/.test(rest)
        ? `Cannot use model "${rest}": names of models have no spaces. /effort sets the reasoning effort.`
        : rest === ""
        ? await showModels(context)
        : await chooseModel(context, { model: rest }),
  ],
  effort: [
    "[LEVEL]",
    "show or set the reasoning effort; /effort default resets it",
    (rest, context) => chooseModel(context, rest === "" ? {} : { effort: rest === "default" ? null : rest }),
  ],
  quote: inSession("", "cost of the next request, as it is and after eviction", quote),
  compact: inSession(
    "",
    "show what eviction now would cost; /compact now evicts with your next message",
    compact,
  ),
  plan: inSession("", "the agent's plan and progress", async (_, { client, session }) => {
    const { plan } = await client.session(session);
    return plan ? renderPlan(plan).join("\n") : "The agent has made no plan.";
  }),
  results: inSession(
    "",
    "list tool results by number, with what the model still sees",
    listResults,
  ),
  output: inSession("[NUMBER]", "show the whole last result, or a numbered one of /results", showOutput),
  retain: inSession(
    "NUMBER",
    "retain a tool result; an evicted one is restored at the next rewrite",
    pin,
  ),
  evict: inSession(
    "NUMBER",
    "evict a tool result at the next rewrite",
    pin,
  ),
  changes: inSession("", "list the files changed by each turn", listChanges),
  undo: inSession(
    "[TURN]",
    "restore files to before the last turn that changed some, or before this turn",
    putBack,
  ),
  back: inSession(
    "[TURN]",
    "the same, and continue in a fork from before that turn",
    putBack,
  ),
  redo: inSession(
    "",
    'revert the last undo; "/undo force" and "/redo force" overwrite later changes',
    putBack,
  ),
  "keep-alive": inSession(
    "[MINUTES]",
    "keep the prompt in the provider's cache during a break; 60 minutes by default",
    keepAlive,
  ),
  quit: [
    "",
    "exit (or Ctrl-D); the session is kept. Ctrl-C stops the turn",
    () => Promise.resolve({ output: "", quits: true }),
  ],
};

export const COMMAND_NAMES: readonly string[] = ["help", ...Object.keys(TABLE)];

export const COMMANDS = `${
  Object.entries(TABLE).map(([name, [args, text]]) => `${`/${name} ${args}`.padEnd(21)} ${text}`).join("\n")
}

@path names a file (Tab completes it), @image.png attaches an image.
A line that ends with \\ continues on the next one; pasted text is one message.
In another terminal, tare page opens the page of this server, signed in.
A cost unit is the price of one input token that is not read from the cache.`;

/** Runs a line that begins with `/`. @throws {Error} with a message for users if the server refuses. */
export async function chatCommand(line: string, context: Context): Promise<CommandOutcome> {
  const [, name = "", rest = ""] = /^\/(\S*)\s*([^]*?)\s*$/.exec(line) ?? [];
  if (name === "help") return { output: await help(context) };
  if (Object.hasOwn(TABLE, name)) {
    const done = await TABLE[name]![2](rest, { ...context, name });
    return typeof done === "string" ? { output: done } : done;
  }
  const file = context.files?.().get(name.normalize());
  if (!file) return { output: `Cannot run /${name}: there is no such command. /help lists them.` };
  return { output: `Running ${file.path}:`, input: await commandText(file, rest) };
}

async function help({ files = () => new Map() }: Context): Promise<string> {
  const all = [...files().values()];
  const isHidden = ({ name }: CommandFile) => COMMAND_NAMES.includes(name);
  const hidden = all.filter(isHidden).map(({ name, path }) =>
    `${path} is ignored: /${name} is a built-in command.`
  );
  const listed = await listCommands(all.filter((file) => !isHidden(file)));
  return [COMMANDS, "", ...listed, ...hidden].join("\n").trimEnd();
}

function copied(session: string): string {
  return `Continuing in a fork; files are unchanged. Back to the original session: /session ${
    session.slice(0, 8)
  }`;
}

/** Sends the last message again or edited, in a fork; or returns it for editing. */
async function sayAgain(rest: string, context: InSession): Promise<CommandOutcome | string> {
  const { client, session, name, markOf, withNamed = (text) => Promise.resolve(text) } = context;
  const last = await client.lastQuestion(session);
  if (!last) return nothingYet(name);
  const { place, content } = last;
  if (name === "edit" && rest === "") {
    const text = contentText(content);
    const isLong = text.split("\n").length > MAX_EDITED_LINES;
    const printable = isLong && markOf ? markOf(text) : text.replaceAll("\n", LINE_BREAK);
    const named = attachedTo(await withNamed(text));
    const placeholders = attachedTo(content).flatMap((part, at) =>
      includes(named, part) ? [] : [markAt(at, part)]
    );
    return { output: "", typed: ["/edit", printable, ...placeholders].join(" ") };
  }
  const input = name === "edit"
    ? await changed(content, rest.replaceAll(LINE_BREAK, "\n"), { ...context, withNamed })
    : content;
  return { output: copied(session), session: (await client.fork(session, place)).session.id, input };
}

type Attached = Exclude<ContentPart, { readonly type: "text" | "refusal" }>;

function attachedTo(content: Content): readonly Attached[] {
  if (typeof content === "string") return [];
  return content.filter((part) => part.type !== "text" && part.type !== "refusal");
}

/** Returns an attachment's mark. Deleting the mark removes the attachment. */
function markAt(at: number, part: Attached): string {
  return `[${partName(part)} ${at + 1}]`;
}

function includes(all: readonly Attached[], part: Attached): boolean {
  const text = JSON.stringify(part);
  return all.some((one) => JSON.stringify(one) === text);
}

/** Returns a message with another text. Attachments stay unless their mark or name was removed. */
async function changed(
  content: Content,
  line: string,
  { withNamed, isOffered = false }: Pick<Context, "isOffered"> & Required<Pick<Context, "withNamed">>,
): Promise<Content> {
  const before = attachedTo(content);
  const isMarked = (part: Attached, at: number) => line.includes(markAt(at, part));
  const staying = isOffered || before.some(isMarked) ? before.filter(isMarked) : before;
  const text = before.reduce((rest, part, at) => rest.replace(markAt(at, part), ""), line).trim();
  const expanded = await withNamed(text);
  const named = attachedTo(expanded);
  const retained = staying.filter((part) => !includes(named, part));
  if (retained.length === 0) return expanded;
  return [...(text === "" ? [] : [{ type: "text", text } as const]), ...retained, ...named];
}

async function cost(_: string, { client, session }: InSession): Promise<string> {
  const calls = await client.calls(session);
  const newest = calls.at(-1);
  if (!newest) return "No model call yet in this session.";
  const priceOf = (of: readonly (Pick<ListedCall, "usd" | "costUnits"> | null)[]) => {
    if (of.every((one) => one?.usd != null)) return usdText(sum(of, (one) => one?.usd ?? 0));
    return counted(sum(of, (one) => one?.costUnits ?? 0), "cost unit");
  };
  const callLines = (of: readonly ListedCall[]) =>
    `${priceOf(of)} for ${counted(of.length, "call")}: ${
      counted(sum(of, ({ promptTokens }) => promptTokens), "prompt token")
    } ` +
    `(${formatCount(sum(of, ({ cachedTokens }) => cachedTokens))} from the cache), ` +
    counted(sum(of, ({ outputTokens }) => outputTokens), "output token");
  const baseline = calls.map(({ baseline }) => baseline);
  return [
    `session:    ${callLines(calls)}`,
    `last turn:  ${callLines(calls.filter(({ turn }) => turn === newest.turn))}`,
    ...(baseline.includes(null) ? [] : [`Estimated cost without Tare: ${priceOf(baseline)}.`]),
  ].join("\n");
}

function sum<T>(all: readonly T[], of: (one: T) => number): number {
  return all.reduce((sum, one) => sum + of(one), 0);
}

async function compact(rest: string, { client, session }: InSession): Promise<CommandOutcome | string> {
  if (rest === "now") {
    return { output: "Your next message evicts everything that may be evicted.", evictNow: true };
  }
  const { asIs, rewritten, cacheHitProbability } = await client.quote(session);
  const tokens = asIs.promptTokens - rewritten.promptTokens;
  if (tokens <= 0) return "Nothing can be evicted now.";
  const costs = (quoted: typeof asIs) =>
    Math.round(
      cacheHitProbability * quoted.warmCostUnits + (1 - cacheHitProbability) * quoted.coldCostUnits,
    );
  return `${formatCount(tokens)} of ${
    counted(asIs.promptTokens, "token")
  } can be evicted; the model can recall them. ` +
    `Your next message would then cost about ${counted(costs(rewritten), "cost unit")} instead of ${
      formatCount(costs(asIs))
    }.\n` +
    "They are evicted automatically once that pays off. /compact now evicts them with your next message.";
}

async function listSessions(client: AgentClient, search: string): Promise<string> {
  const sessions = await client.listSessions(search);
  if (sessions.length === 0) {
    return search === "" ? "There is no session yet." : `No session contains: ${search}`;
  }
  return sessions.map(sessionRow).join("\n");
}

async function findSession(client: AgentClient, given: string): Promise<CommandOutcome | string> {
  if (given === "") return "Cannot change the session: /session needs an id. /sessions lists them.";
  const session = await client.findSession(given);
  const questions = await client.questions(session);
  return { output: questions.map((text) => `› ${text}`).join("\n"), session };
}

async function showModels(context: Context): Promise<CommandOutcome> {
  const chosen = await chooseModel(context, {});
  const rows = await context.client.models().then(modelRows, (error) => [error.message]);
  return { ...chosen, output: [chosen.output, ...rows, "/model NAME chooses one."].join("\n") };
}

async function chooseModel(
  { client, session: given }: Context,
  wanted: Parameters<AgentClient["choose"]>[1],
): Promise<CommandOutcome> {
  const session = given ?? await client.createSession();
  const { session: { model, effort = "default", turns }, efforts } = await client.choose(session, wanted);
  const known = efforts === undefined
    ? ""
    : ` (${efforts.length === 0 ? "not adjustable" : `one of ${efforts.join(", ")}`})`;
  const isAnother = wanted.model !== undefined && turns > 0;
  const cache = isAnother
    ? "\nIts cache contains nothing that was sent to other models, so the next request costs more."
    : "";
  return { output: `model ${model}, effort ${effort}${known}${cache}`, session };
}

async function quote(_: string, { client, session }: InSession): Promise<string> {
  const { asIs, rewritten, cacheHitProbability } = await client.quote(session);
  const priceLine = ({ promptTokens, warmCostUnits, coldCostUnits }: typeof asIs) =>
    `${counted(promptTokens, "token")}; costs ${counted(warmCostUnits, "cost unit")} if cached, ` +
    `${formatCount(coldCostUnits)} if not`;
  return `as it is:       ${priceLine(asIs)}\nafter eviction: ${priceLine(rewritten)}\n` +
    `Probability that the prompt is still cached: ${(100 * cacheHitProbability).toFixed(0)} %.\n` +
    "A cost unit is the price of one input token that is not read from the cache.";
}

async function listResults(_: string, { client, session }: InSession): Promise<string> {
  const { blocks } = await client.prompt(session);
  const results = blocks.filter(({ role, place }) => role === "tool" && place !== null);
  if (results.length === 0) return "No tool results yet.";
  return results.map(({ place, tool, tokens, originalTokens, state, pin }) =>
    `${String(place).padStart(4)}  ${tool}, ${STATE_NAMES[state]}: ${formatCount(tokens)} of ${
      counted(originalTokens, "token")
    }` +
    (pin === null ? "" : `; ${pin.wish === "retain" ? "retain" : "evict"}: ${pin.state}`)
  ).join("\n");
}

async function showOutput(place: string, { client, session }: InSession): Promise<string> {
  const content = await client.resultAt(session, place === "" ? undefined : Number(place));
  return content ??
    (place === ""
      ? "No tool results yet."
      : `Cannot show ${JSON.stringify(place)}: it is not the number of a result. /results lists them.`);
}

async function pin(place: string, { client, session, name }: InSession): Promise<string> {
  if (!/^\d+$/.test(place)) {
    return `Cannot use ${JSON.stringify(place)}: it is not the number of a result. /results lists them.`;
  }
  const { state } = await client.pin(session, Number(place), name === "retain" ? "retain" : "evict");
  const [done, waits] = name === "retain"
    ? ["is retained", "is restored at the next rewrite and retained"]
    : ["is evicted", "is evicted at the next rewrite"];
  return `Result ${place} ${state === "done" ? done : waits}.`;
}

async function listChanges(_: string, { client, session }: InSession): Promise<string> {
  const turns = await client.changes(session);
  if (turns.length === 0) return "No file changes are recorded.";
  return turns.map(({ turn, files, isUndone, notCovered }) =>
    [
      `turn ${turn}${isUndone ? ", undone" : ""}: ${counted(files.length, "file")}`,
      ...undoLines({ files, notCovered }),
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
    const takes = name === "redo" ? "only" : "a turn's number, as listed by /changes, and";
    return `Cannot run /${name} ${rest}: it takes ${takes} "force".`;
  }
  const body = { ...(turn !== "" && { turn: Number(turn) }), ...(force && { force: true }) };
  if (name === "redo") return undoOutput("restored", await client.redo(session, body));
  const done = await client.undo(session, { ...body, conversation: name === "back" });
  const output = undoOutput("reverted", done);
  if (!done.session) return output;
  return {
    output: `${output}\nThe conversation continues before that turn, in session ${done.session.id}.`,
    session: done.session.id,
  };
}

function undoOutput(done: string, { files, notCovered }: Pick<PutBack, "files" | "notCovered">): string {
  return [`${counted(files.length, "file")} ${done}.`, ...undoLines({ files, notCovered })].join("\n");
}

const MAX_LISTED = 20;

function undoLines({ files, notCovered }: Pick<PutBack, "files" | "notCovered">): readonly string[] {
  const more = files.length - MAX_LISTED;
  return [
    ...files.slice(0, MAX_LISTED).map(({ path, change }) => `  ${change.padEnd(8)} ${path}`),
    ...(more > 0 ? [`  and ${more} more`] : []),
    ...notCovered.map((sentence) => `  not included: ${sentence}`),
  ];
}

async function keepAlive(minutes: string, { client, session }: InSession): Promise<string> {
  if (!/^\d*$/.test(minutes)) {
    return `Cannot keep the cache alive for ${JSON.stringify(minutes)}: it is not a number of minutes.`;
  }
  const { until, maxUsd } = await client.keepAlive(session, minutes === "" ? 60 : Number(minutes));
  return `Keeping the prompt cached until ${until} at the latest, for at most ${usdText(maxUsd)}.`;
}
