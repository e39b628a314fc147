/**
 * A session to talk in at the terminal: `deno task chat`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import process from "node:process";
import { type AsyncCompleter, createInterface } from "node:readline";
import { Writable } from "node:stream";
import { type Content, contentText } from "@tare/messages";
import { type AgentInfo, type ChosenSettings, connect } from "../agent_client.ts";
import { KEY_NOTE, option, runCommandLine, SERVER_OPTIONS } from "../command_line.ts";
import { callersFolder, FOLDER_VARIABLES } from "../server/noted_server.ts";
import { eventPrinter } from "../event_printer.ts";
import { askPerson } from "./ask_person.ts";
import { chatCommand, COMMAND_NAMES, COMMANDS } from "./chat_commands.ts";
import { findCommands } from "./command_files.ts";
import { MARKS_PASTES, pastedInput } from "./input.ts";
import { completeFile, withPictures } from "./named_files.ts";
import { shownText } from "./shown_text.ts";
import { waitingLine } from "./waiting.ts";
import { STOPPING, type WatchedTurn, watchTurn } from "./watch_turn.ts";

const PROMPT = "› ";

/** In front of a line that goes on with the one before. */
const GOES_ON = "… ";

const REHEARSAL = "rehearsal";

const HOW_TO_START = "set OPENAI_API_KEY or ANTHROPIC_API_KEY, and TARE_MODEL to the model's name; " +
  "then tare stop, and tare again.";

/** What a person is told of the agent first, in a line or two. @throws {Error} if there is none. */
function greeting({ model, workspace }: AgentInfo, url: string): string {
  if (model === undefined) {
    throw new Error(`Cannot talk yet: this server has a provider and no model. To talk, ${HOW_TO_START}`);
  }
  const where = workspace === undefined ? `at ${url}` : `in ${workspace}`;
  return [
    `Talking to ${model} ${where}. /help lists the commands.`,
    ...model === REHEARSAL
      ? [`No model is set up yet: a rehearsal answers, by fixed rules. For a real one, ${HOW_TO_START}`]
      : [],
  ].join("\n");
}

async function chat(values: { readonly session?: string; readonly url?: string }): Promise<void> {
  const read = (name: string) => Deno.env.get(name);
  const { url, client } = await connect(values.url);
  const agent = await client.agent();
  const greets = greeting(agent, url);
  // A server elsewhere works in a folder that isn't here.
  const isHere = agent.workspace !== undefined &&
    await Deno.stat(agent.workspace).then(() => true, () => false);
  const called = callersFolder(Object.fromEntries(FOLDER_VARIABLES.map((name) => [name, read(name)])));
  const folder = isHere ? agent.workspace! : called;
  const files = () => findCommands({ workspace: folder, home: read("HOME") });

  let session = values.session ?? null;
  let settings: ChosenSettings | undefined;
  let leavesNow = false;
  // Newest first, as the arrow keys go through them.
  const history = session === null
    ? []
    : (await client.questions(session)).map((text) => shownText(text.replaceAll("\n", " "))).reverse();
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
  // By it long lines are wrapped, and names stand beside one another.
  Object.defineProperty(output, "columns", { get: () => process.stdout.columns });
  const isTerminal = process.stdin.isTTY && process.stdout.isTTY;
  const pasted = isTerminal ? pastedInput(process.stdin) : undefined;
  const completer: AsyncCompleter = (line, done) => {
    complete(line).then(
      ({ typed, all }) => {
        const [only] = all.length === 1 ? all : [];
        // What is sure is over, unless it is a folder.
        done(null, [only === undefined || only.endsWith("/") ? [...all] : [`${only} `], typed]);
      },
      // What can't be completed can be typed.
      () => done(null, [[], line]),
    );
  };
  const complete = async (line: string) => {
    const [typed] = /^\/[\p{L}\p{M}\p{N}_-]*$/u.exec(line) ?? [];
    if (typed === undefined) return await completeFile(line, client.findFiles);
    const names = [...COMMAND_NAMES, ...files().keys()].map((name) => `/${name}`);
    return { typed, all: names.filter((name) => name.startsWith(typed)) };
  };
  // Once the terminal is closed nothing can be written, which "close" tells of.
  process.stdout.on("error", () => lines.close());
  const lines = createInterface({
    input: pasted?.input ?? process.stdin,
    output,
    terminal: isTerminal,
    prompt: isTerminal ? PROMPT : "",
    history,
    ...(isTerminal && { completer }),
  });

  const isColoured = isTerminal && !Deno.noColor;
  let line: ReturnType<typeof waitingLine> | undefined;
  let person: ReturnType<typeof askPerson> | undefined;
  let printer: { readonly of: string; readonly print: ReturnType<typeof eventPrinter> } | undefined;
  const printerOf = async (of: string) => {
    if (printer?.of === of) return printer.print;
    const { plan } = await client.session(of);
    const { columns } = process.stdout;
    const put = (text: string) => (person?.write ?? write)(text);
    const print = eventPrinter(put, {
      ...{ isColoured, plan },
      ...(columns > 0 && { columns }),
      ...(isTerminal && { showAbove: (rows) => line?.above(rows) }),
    });
    printer = { of, print };
    return print;
  };
  /** Says something, or shows what goes on behind an event, and answers what the session asks already. */
  const talk = async (
    { joins = false, ...what }:
      | { readonly input: Content; readonly joins?: false }
      | { readonly after: number; readonly joins: boolean },
  ) => {
    session ??= await client.createSession(settings);
    settings = undefined;
    const print = await printerOf(session);
    const { stdout } = process;
    line = isTerminal
      ? waitingLine({ write, joins, columns: () => stdout.columns, height: () => stdout.rows })
      : undefined;
    person = line && askPerson(lines, { write: line.write, isColoured, onAsk: (asks) => isAsking = asks });
    turn = watchTurn(client, {
      session,
      leavesNow,
      ...what,
      ask: person?.ask,
      show(event) {
        line?.follow(event);
        print(event);
      },
    });
    leavesNow = false;
    try {
      await turn.end;
    } finally {
      turn = undefined;
      line?.close();
      line = person = undefined;
    }
  };
  /** Shows what goes on in a session, as somebody comes to it or has something to say; who comes is asked what is asked there. */
  const comeTo = async (id: string | null, { says = false } = {}) => {
    if (!isTerminal || id === null) return;
    const { status, approvals, lastEvent } = await client.session(id);
    if (status === "running") {
      const asked = await client.lastQuestion(id);
      const [line = ""] = contentText(asked?.content ?? "").trim().split("\n");
      console.log(shownText(`Its turn goes on, and Ctrl-C stops it: ${line.slice(0, 80)}`));
    }
    // Not from where it is by then: it may have ended meanwhile.
    const joins = status === "running";
    if (joins || !says && approvals.length > 0) await talk({ after: lastEvent, joins });
  };
  const say = async (input: Content) => {
    await comeTo(session, { says: true });
    await talk({ input });
  };
  const answer = async (said: string): Promise<boolean> => {
    try {
      if (!said.startsWith("/")) {
        await say(await withPictures(said, { folder }));
        return true;
      }
      const withNamed = (text: string) => withPictures(text, { folder });
      const done = await chatCommand(said, {
        ...{ client, session, files, withNamed, isOffered },
        markOf: pasted?.markOf,
      });
      if (done.session !== undefined) {
        session = done.session;
        settings = done.settings;
        leavesNow = false;
      }
      if (done.leavesNow) leavesNow = true;
      if (done.says !== "") console.log(shownText(done.says));
      if (typeof done.input === "string") {
        await say(await withPictures(done.input, { folder, typed: said }));
      } else if (done.input) await say(done.input);
      else if (typeof done.session === "string") await comeTo(done.session);
      if (done.typed !== undefined) typed = done.typed;
      return !done.quits;
    } catch (error) {
      console.log(shownText((error as Error).message));
      return true;
    }
  };
  /** What stands in the next line already. */
  let typed = "";
  /** Whether something did. */
  let isOffered = false;
  /** Lines that were ended by a backslash. */
  let begun = "";
  const prompt = () => {
    if (isTerminal) lines.setPrompt(begun === "" ? PROMPT : GOES_ON);
    if (begun === "") isOffered = isTerminal && typed !== "";
    lines.prompt();
    if (isTerminal && typed !== "") lines.write(shownText(typed, { isWhole: true }));
    typed = "";
  };

  lines.on("SIGINT", () => {
    if (turn) {
      write("\nCancelling the turn …\n");
      turn.cancel().catch((error) => console.log(shownText(error.message)));
    } else {
      // As shells do: the line is dropped, the program stays.
      write(lines.line === "" && begun === "" ? "\n/quit or Ctrl-D leaves.\n" : "\n");
      lines.write(null, { ctrl: true, name: "e" });
      lines.write(null, { ctrl: true, name: "u" });
      begun = "";
      prompt();
    }
  });
  // A terminal's Ctrl-C is a key here; these come from elsewhere.
  for (const signal of STOPPING) Deno.addSignalListener(signal, () => lines.close());
  /** Of each line that is to be read yet, whether it was typed unseen, while a turn ran. */
  const unseen: boolean[] = [];
  lines.on("line", () => unseen.push(isTerminal && turn !== undefined));
  // From now on: what is typed before the first prompt counts too.
  const typedLines = lines[Symbol.asyncIterator]();
  lines.on("close", () => turn?.cancel().catch((error) => console.log(shownText(error.message))));
  console.log(shownText(session === null ? greets : `${greets}\nIt goes on with session ${session}.`));
  if (isTerminal) write(MARKS_PASTES.on);
  try {
    await comeTo(session);
    prompt();
    for await (const typed of typedLines) {
      if (unseen.shift()) write(`${shownText(typed)}\n`);
      const text = pasted?.whole(typed) ?? typed;
      if (typed.endsWith("\\")) begun += `${text.slice(0, -1)}\n`;
      else {
        const said = (begun + text).trim();
        begun = "";
        if (said !== "" && !await answer(said)) break;
      }
      prompt();
    }
  } finally {
    if (isTerminal) write(MARKS_PASTES.off);
  }
  if (session !== null) console.log(`\nThe session stays: --session ${session}`);
}

await runCommandLine({
  call: "deno task chat",
  summary: "A session with the agent server to talk in",
  options: { session: option("ID", "Continue this session instead of starting one"), ...SERVER_OPTIONS },
  notes: `${KEY_NOTE} In the chat:\n\n${COMMANDS}`,
}, ({ values }) => chat(values));
