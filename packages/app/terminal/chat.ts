/**
 * A session to talk in at the terminal: `deno task chat`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import process from "node:process";
import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { parseArgs } from "node:util";
import { type AgentClient, agentClient, serverAddress } from "../agent_client.ts";
import { eventPrinter, usdText } from "../event_printer.ts";
import { askPerson } from "./ask_person.ts";
import { waitingLine } from "./waiting_line.ts";
import { STOPPING, type WatchedTurn, watchTurn } from "./watch_turn.ts";
import { shownText } from "./shown_text.ts";

/** What `/help` says. */
export const COMMANDS = `/new               begin another session
/sessions [WORDS]  list the newest sessions, or those in which something was said so
/session ID        go on with this one, by its id or the beginning of it
/model [NAME]      the model that the next turns ask, or ask this one
/effort [LEVEL]    how much it reasons, or let it reason so much; default is as it likes
/quote             what the next request would cost, and without what could leave
/results           the results of tools, by number, and what of them the model still sees
/keep NUMBER       bring this one back at the next rewrite, and keep it
/let-go NUMBER     let this one leave at the next rewrite
/changes           what each turn has changed of files
/undo [TURN]       put files back as they were before the newest turn that changed some, or before this one
/back [TURN]       the same, and go on in a new session from before that turn
/redo              take the last undo back; with "force" behind it this and undo overwrite what was changed since
/warm [MINUTES]    keep the prompt in the provider's cache for an hour, or so long, while nobody says anything
/quit              leave (or Ctrl-D); the session stays. Ctrl-C stops the turn`;

const HELP = `A session with the agent server to talk in:

  deno task chat [--session ID] [--url URL]

  --session ID  Continue this session instead of starting one
  --url URL     The server. Default: by TARE_HOST and TARE_PORT, or the one of this folder

The key that is sent along is TARE_TOKEN, or the owner's of a server on this machine. In the chat:

${COMMANDS}`;

const PROMPT = "› ";

async function chat(): Promise<void> {
  const { values } = parseArgs({
    options: {
      session: { type: "string" },
      url: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) return console.log(HELP);
  const { url, token } = await serverAddress((name) => Deno.env.get(name), values.url);
  const client = agentClient(url, token);
  let session = values.session ?? null;
  // Newest first, as the arrow keys go through them.
  const history = session === null
    ? []
    : (await client.questions(session)).map((text) => shownText(text)).reverse();
  let turn: WatchedTurn | undefined;
  let isAsking = false;
  const write = (text: string) => void process.stdout.write(text);
  // What is typed while a turn runs would land in the middle of what it shows.
  const output = new Writable({
    write(chunk, _encoding, done) {
      if (!turn || isAsking) process.stdout.write(chunk);
      done();
    },
  });
  const isTerminal = process.stdin.isTTY && process.stdout.isTTY;
  const lines = createInterface({
    input: process.stdin,
    output,
    terminal: isTerminal,
    prompt: isTerminal ? PROMPT : "",
    history,
  });

  /** Says something, or without an input answers what the session asks already. */
  const talk = async (input?: string) => {
    session ??= await client.createSession();
    const line = isTerminal ? waitingLine({ write }) : undefined;
    const isColoured = isTerminal && !Deno.noColor;
    const print = eventPrinter(line?.write ?? write, { isColoured });
    turn = watchTurn(client, {
      session,
      ...(input !== undefined && { input }),
      ask: line && askPerson(lines, { write: line.write, isColoured, onAsk: (asks) => isAsking = asks }),
      show(event) {
        line?.follow(event);
        print(event);
      },
    });
    try {
      await turn.end;
    } finally {
      turn = undefined;
      line?.close();
    }
  };
  const answer = async (line: string): Promise<boolean> => {
    try {
      if (!line.startsWith("/")) {
        await talk(line);
        return true;
      }
      const { says, session: other = session, quits = false } = await chatCommand(line, { client, session });
      session = other;
      if (says !== "") console.log(shownText(says));
      return !quits;
    } catch (error) {
      console.log(shownText((error as Error).message));
      return true;
    }
  };

  lines.on("SIGINT", () => {
    if (turn) {
      write("\nCancelling the turn …\n");
      turn.cancel().catch((error) => console.log(shownText(error.message)));
    } else {
      // As shells do: the line is dropped, the program stays.
      write(lines.line === "" ? "\n/quit or Ctrl-D leaves.\n" : "\n");
      lines.write(null, { ctrl: true, name: "e" });
      lines.write(null, { ctrl: true, name: "u" });
      lines.prompt();
    }
  });
  // A terminal's Ctrl-C is a key here; these come from elsewhere.
  for (const signal of STOPPING) Deno.addSignalListener(signal, () => lines.close());
  lines.on("close", () => turn?.cancel().catch((error) => console.log(shownText(error.message))));
  console.log(
    `Talking to ${url}${session === null ? "" : `, session ${session}`}. /help lists the commands.`,
  );
  if (isTerminal && session !== null && (await client.approvals(session)).length > 0) await talk();
  lines.prompt();
  for await (const line of lines) {
    if (line.trim() !== "" && !await answer(line.trim())) break;
    lines.prompt();
  }
  if (session !== null) console.log(`\nThe session stays: --session ${session}`);
}

/** What a command does to the chat. */
interface CommandOutcome {
  /** What to tell the person. */
  readonly says: string;
  /** The session that the chat goes on with; null for a new one. Default: the same. */
  readonly session?: string | null;
  readonly quits?: boolean;
}

type PutBack = Awaited<ReturnType<AgentClient["redo"]>>;

type CommandClient =
  & Pick<
    AgentClient,
    | "createSession"
    | "listSessions"
    | "questions"
    | "quote"
    | "prompt"
    | "pin"
    | "keepWarm"
    | "changes"
    | "redo"
  >
  & {
    readonly choose: (...asked: Parameters<AgentClient["choose"]>) => Promise<{
      readonly session: { readonly model: string; readonly effort?: string; readonly turns: number };
      readonly efforts?: readonly string[];
    }>;
    readonly undo: (
      ...asked: Parameters<AgentClient["undo"]>
    ) => Promise<PutBack & { readonly session?: { readonly id: string } }>;
  };

/**
 * Does what a line that begins with `/` says.
 *
 * @throws {Error} with a sentence for people if the server refuses.
 */
export async function chatCommand(
  line: string,
  { client, session }: { readonly client: CommandClient; readonly session: string | null },
): Promise<CommandOutcome> {
  const [, name = "", rest = ""] = /^\/(\S*)\s*(.*?)\s*$/.exec(line) ?? [];
  const inSession = async (say: (session: string) => Promise<string>): Promise<CommandOutcome> => ({
    says: session === null
      ? `Cannot do /${name}: nothing has been said yet in this session.`
      : await say(session),
  });
  switch (name) {
    case "help":
      return { says: COMMANDS };
    case "new":
      return { says: "A new session begins with what you say next.", session: null };
    case "quit":
      return { says: "", quits: true };
    case "sessions":
      return { says: await listSessions(client, rest) };
    case "session":
      return await findSession(client, rest);
    case "model":
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
    default:
      return { says: `Cannot do /${name}: there is no such command.\n${COMMANDS}` };
  }
}

async function listSessions(client: CommandClient, search: string): Promise<string> {
  const sessions = await client.listSessions(search);
  if (sessions.length === 0) {
    return search === "" ? "There is no session yet." : `Nowhere was said: ${search}`;
  }
  return sessions.map(({ id, title, turns, ledger: { usd } }) =>
    `${id}  ${count(turns, "turn")}${usd === undefined ? "" : `, ${usdText(usd)}`}  ${title}`
  ).join("\n");
}

async function findSession(client: CommandClient, given: string): Promise<CommandOutcome> {
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
  client: CommandClient,
  given: string | null,
  wanted: Parameters<AgentClient["choose"]>[1],
): Promise<CommandOutcome> {
  const session = given ?? await client.createSession();
  const { session: { model, effort = "its own", turns }, efforts } = await client.choose(session, wanted);
  const known = efforts === undefined
    ? ""
    : ` (there is ${efforts.length === 0 ? "nothing to choose" : efforts.join(", ")})`;
  const isAnother = wanted.model !== undefined && turns > 0;
  const cache = isAnother ? "\nIts cache holds what it was sent itself, and nothing of what other models were." : "";
  return { says: `model ${model}, effort ${effort}${known}${cache}`, session };
}

async function quote(client: CommandClient, session: string): Promise<string> {
  const { asIs, rewritten, alive } = await client.quote(session);
  const told = ({ promptTokens, warmTokenUnits, coldTokenUnits }: typeof asIs) =>
    `${number(promptTokens)} tokens; costs ${number(warmTokenUnits)} token units from a warm cache, ` +
    `${number(coldTokenUnits)} from a cold one`;
  return `as it is:            ${told(asIs)}\nwithout what may go: ${told(rewritten)}\n` +
    `The cache is warm with probability ${alive.toFixed(2)}.`;
}

async function listResults(client: CommandClient, session: string): Promise<string> {
  const { blocks } = await client.prompt(session);
  const results = blocks.filter(({ role, place }) => role === "tool" && place !== null);
  if (results.length === 0) return "No tool has given a result yet.";
  return results.map(({ place, tool, tokens, originalTokens, state, pin }) =>
    `${String(place).padStart(4)}  ${tool}, ${state}: ${number(tokens)} of ${number(originalTokens)} tokens` +
    (pin === null ? "" : `; ${pin.wish === "keep" ? "kept" : "let go"}, ${pin.state}`)
  ).join("\n");
}

async function pin(
  client: CommandClient,
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

async function listChanges(client: CommandClient, session: string): Promise<string> {
  const turns = await client.changes(session);
  if (turns.length === 0) return "No turn has changed files that are kept on the server's machine.";
  return turns.map(({ turn, files, isUndone, notCovered }) =>
    [
      `turn ${turn}${isUndone ? ", undone" : ""}: ${count(files.length, "file")}`,
      ...told({ files, notCovered }),
    ]
      .join("\n")
  ).join("\n");
}

async function putBack(
  client: CommandClient,
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
  return [`${count(files.length, "file")} ${done}.`, ...told({ files, notCovered })].join("\n");
}

/** Files that are listed; the page and the API have them all. */
const MOST_LISTED = 20;

function told({ files, notCovered }: Pick<PutBack, "files" | "notCovered">): readonly string[] {
  const more = files.length - MOST_LISTED;
  return [
    ...files.slice(0, MOST_LISTED).map(({ path, change }) => `  ${change.padEnd(8)} ${path}`),
    ...(more > 0 ? [`  and ${more} more`] : []),
    ...notCovered.map((sentence) => `  not covered: ${sentence}`),
  ];
}

async function keepWarm(client: CommandClient, session: string, minutes: string): Promise<string> {
  if (!/^\d*$/.test(minutes)) {
    return `Cannot keep the prompt warm for ${JSON.stringify(minutes)}: a number of minutes is needed.`;
  }
  const { until, maxUsd } = await client.keepWarm(session, minutes === "" ? 60 : Number(minutes));
  return `The prompt is kept warm until ${until} at most, for at most ${usdText(maxUsd)}.`;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

function number(value: number): string {
  return Math.round(value).toLocaleString("en");
}

if (import.meta.main) {
  try {
    await chat();
    Deno.exit(0);
  } catch (error) {
    console.error((error as Error).message);
    Deno.exit(1);
  }
}
