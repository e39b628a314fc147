/**
 * An interactive session in the terminal: `deno task chat`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import process from "node:process";
import { type AsyncCompleter, createInterface } from "node:readline";
import { Writable } from "node:stream";
import { type Content, contentText } from "@tare/messages";
import { type AgentInfo, type ChosenSettings, connect, SHORT_ID } from "../agent_client.ts";
import { flag, KEY_NOTE, option, runCommandLine, SERVER_OPTIONS } from "../command_line.ts";
import { callersFolder, FOLDER_VARIABLES } from "../server/noted_server.ts";
import { eventPrinter } from "../event_printer.ts";
import { askUser } from "./ask_user.ts";
import { chatCommand, COMMAND_NAMES, COMMANDS } from "./chat_commands.ts";
import { findCommands } from "./command_files.ts";
import { MARKS_PASTES, pastedInput } from "./input.ts";
import { completeFile, withImages } from "./named_files.ts";
import { printableText } from "./printable_text.ts";
import { waitingLine } from "./waiting.ts";
import { STOPPING, type WatchedTurn, watchTurn } from "./watch_turn.ts";
import { alignedRows } from "./word_wrap.ts";

const PROMPT = "› ";

const CONTINUATION = "… ";

const DEFAULT_COLUMNS = 80;

const DEMO = "demo";

const HOW_TO_START = "set OPENAI_API_KEY or ANTHROPIC_API_KEY, and run tare again.";

function greeting({ model, workspace }: AgentInfo, url: string): string {
  if (model === undefined) {
    throw new Error(
      "Cannot start a chat: this server has a provider but no model. Run tare settings TARE_MODEL=NAME, and tare again.",
    );
  }
  const where = workspace === undefined ? `at ${url}` : `in ${workspace}`;
  return [
    `Chatting with ${model} ${where}.`,
    "/help lists the commands, tare page opens the page.",
    ...model === DEMO
      ? [
        `No model is configured: an offline demo model answers by fixed rules. For a real one, ${HOW_TO_START}`,
      ]
      : [],
  ].join("\n");
}

interface ChatOptions {
  readonly session?: string;
  readonly continue?: boolean;
  readonly url?: string;
}

async function chat(values: ChatOptions): Promise<void> {
  const read = (name: string) => Deno.env.get(name);
  const { url, client } = await connect(values.url);
  const agent = await client.agent();
  const greets = greeting(agent, url);
  const isHere = agent.workspace !== undefined &&
    await Deno.stat(agent.workspace).then(() => true, () => false);
  const called = callersFolder(Object.fromEntries(FOLDER_VARIABLES.map((name) => [name, read(name)])));
  const folder = isHere ? agent.workspace! : called;
  const files = () => findCommands({ workspace: folder, home: read("HOME") });

  let session = values.session === undefined ? null : await client.findSession(values.session);
  if (values.continue && session === null) [{ id: session } = { id: null }] = await client.listSessions("");
  let settings: ChosenSettings | undefined;
  let evictNow = false;
  // Newest first, as readline requires.
  const history = session === null
    ? []
    : (await client.questions(session)).map((text) => printableText(text.replaceAll("\n", " "))).reverse();
  let turn: WatchedTurn | undefined;
  let isAsking = false;
  const write = (text: string) => void process.stdout.write(text);
  const columns = process.stdout.isTTY
    // Some terminals wrap once the last column is filled.
    ? () => (process.stdout.columns || DEFAULT_COLUMNS) - 1
    : undefined;
  const print = (text: string) => console.log(alignedRows(printableText(text), columns).join("\n"));
  // Input typed during a turn isn't echoed into its output.
  const output = new Writable({
    write(chunk, _encoding, done) {
      if (!turn || isAsking) process.stdout.write(chunk);
      done();
    },
  });
  Object.defineProperty(output, "columns", { get: () => process.stdout.columns });
  const isTerminal = process.stdin.isTTY && process.stdout.isTTY;
  const pasted = isTerminal ? pastedInput(process.stdin) : undefined;
  const completer: AsyncCompleter = (line, done) => {
    complete(line).then(
      ({ typed, all }) => {
        const [only] = all.length === 1 ? all : [];
        // A unique completion ends with a space, unless it is a folder.
        done(null, [only === undefined || only.endsWith("/") ? [...all] : [`${only} `], typed]);
      },
      () => done(null, [[], line]),
    );
  };
  const complete = async (line: string) => {
    const [typed] = /^\/[\p{L}\p{M}\p{N}_-]*$/u.exec(line) ?? [];
    if (typed === undefined) return await completeFile(line, client.findFiles);
    const names = [...COMMAND_NAMES, ...files().keys()].map((name) => `/${name}`);
    return { typed, all: names.filter((name) => name.startsWith(typed)) };
  };
  const lines = createInterface({
    input: pasted?.input ?? process.stdin,
    output,
    terminal: isTerminal,
    prompt: isTerminal ? PROMPT : "",
    history,
    ...(isTerminal && { completer }),
  });

  const isColored = isTerminal && !Deno.noColor;
  let line: ReturnType<typeof waitingLine> | undefined;
  let approvalPrompt: ReturnType<typeof askUser> | undefined;
  let printer: { readonly of: string; readonly print: ReturnType<typeof eventPrinter> } | undefined;
  const printerOf = async (of: string) => {
    if (printer?.of === of) return printer.print;
    const { plan } = await client.session(of);
    const put = (text: string) => (approvalPrompt?.write ?? write)(text);
    const show = eventPrinter(put, {
      ...{ isColored, plan, columns },
      ...(isTerminal && { showAbove: (rows) => line?.above(rows) }),
    });
    printer = { of, print: show };
    return show;
  };
  /** Sends a message, or shows the events after a number; then requests pending approvals. */
  const talk = async (
    { joins = false, ...what }:
      | { readonly input: Content; readonly joins?: false }
      | { readonly after: number; readonly joins: boolean },
  ) => {
    session ??= await client.createSession(settings);
    settings = undefined;
    const show = await printerOf(session);
    const { stdout } = process;
    line = isTerminal
      ? waitingLine({ write, joins, columns: () => stdout.columns, height: () => stdout.rows })
      : undefined;
    approvalPrompt = line &&
      askUser(lines, {
        ...{ write: line.write, isColored, ...(columns && { columns }) },
        onAsk: (asks) => isAsking = asks,
      });
    const { ask } = approvalPrompt ?? {};
    turn = watchTurn(client, {
      session,
      evictNow,
      ...what,
      ask: ask && (async (approval, signal) => {
        if (!hasEnded) return await ask(approval, signal);
        await cancelTurn();
        return undefined;
      }),
      show(event) {
        line?.follow(event);
        show(event);
      },
    });
    evictNow = false;
    try {
      await turn.end;
    } finally {
      turn = undefined;
      line?.close();
      line = approvalPrompt = undefined;
    }
  };
  /** Shows a running turn, and requests pending approvals unless a message follows (`hasMessage`). */
  const joinSession = async (id: string | null, { hasMessage = false } = {}) => {
    if (!isTerminal || id === null) return;
    const { status, approvals, lastEvent } = await client.session(id);
    if (status === "running") {
      const pending = await client.lastQuestion(id);
      const [line = ""] = contentText(pending?.content ?? "").trim().split("\n");
      print(`A turn is running; Ctrl-C stops it: ${line.slice(0, 80)}`);
    }
    const joins = status === "running";
    if (joins || !hasMessage && approvals.length > 0) await talk({ after: lastEvent, joins });
  };
  const send = async (input: Content) => {
    await joinSession(session, { hasMessage: true });
    await talk({ input });
  };
  const answer = async (response: string): Promise<boolean> => {
    try {
      if (!response.startsWith("/")) {
        await send(await withImages(response, { folder }));
        return true;
      }
      const withNamed = (text: string) => withImages(text, { folder });
      const done = await chatCommand(response, {
        ...{ client, session, files, withNamed, isOffered },
        markOf: pasted?.markOf,
      });
      if (done.session !== undefined) {
        session = done.session;
        settings = done.settings;
        evictNow = false;
      }
      if (done.evictNow) evictNow = true;
      if (done.output !== "") print(done.output);
      if (typeof done.input === "string") {
        await send(await withImages(done.input, { folder, typed: response }));
      } else if (done.input) await send(done.input);
      else if (typeof done.session === "string") await joinSession(done.session);
      if (done.typed !== undefined) typed = done.typed;
      return !done.quits;
    } catch (error) {
      print((error as Error).message);
      return true;
    }
  };
  const cancelTurn = async () => {
    await turn?.cancel().catch((error) => print(error.message));
  };
  /** Lines not yet read, and whether they weren't echoed: they were typed during a turn, or not on a terminal. */
  const unread: { readonly typed: string; readonly isUnseen: boolean }[] = [];
  let hasEnded = false;
  let received = Promise.withResolvers<void>();
  lines.on("line", (typed) => {
    unread.push({ typed, isUnseen: !isTerminal || turn !== undefined });
    received.resolve();
  });
  lines.on("close", () => {
    hasEnded = true;
    received.resolve();
    if (isAsking) void cancelTurn();
    else if (isTerminal && turn) write("\nExits after this turn; Ctrl-C stops it.\n");
  });
  async function* typedLines() {
    for (;;) {
      const next = unread.shift();
      if (next) yield next;
      else if (hasEnded) return;
      else {
        received = Promise.withResolvers();
        await received.promise;
      }
    }
  }
  const leave = () => {
    void cancelTurn();
    unread.length = 0;
    if (!hasEnded) lines.close();
  };
  let typed = "";
  let isOffered = false;
  let begun = "";
  const prompt = () => {
    if (hasEnded) return;
    if (isTerminal) lines.setPrompt(begun === "" ? PROMPT : CONTINUATION);
    if (begun === "") isOffered = isTerminal && typed !== "";
    lines.prompt();
    if (isTerminal && typed !== "") lines.write(printableText(typed, { isWhole: true }));
    typed = "";
  };

  lines.on("SIGINT", () => {
    if (turn) {
      write("\nCancelling the turn …\n");
      void cancelTurn();
    } else {
      write(lines.line === "" && begun === "" ? "\n/quit or Ctrl-D exits.\n" : "\n");
      lines.write(null, { ctrl: true, name: "e" });
      lines.write(null, { ctrl: true, name: "u" });
      begun = "";
      prompt();
    }
  });
  // Ctrl-C is a key here; these signals come from other processes.
  for (const signal of STOPPING) Deno.addSignalListener(signal, leave);
  process.stdout.on("error", leave);
  print(session === null ? greets : `${greets}\nContinuing session ${session}.`);
  if (isTerminal) write(MARKS_PASTES.on);
  try {
    await joinSession(session);
    prompt();
    for await (const { typed, isUnseen } of typedLines()) {
      if (isUnseen) write(`${isTerminal ? "" : PROMPT}${printableText(typed)}\n`);
      const text = pasted?.whole(typed) ?? typed;
      if (typed.endsWith("\\")) begun += `${text.slice(0, -1)}\n`;
      else {
        const response = (begun + text).trim();
        begun = "";
        if (response !== "" && !await answer(response)) break;
      }
      prompt();
    }
  } finally {
    if (isTerminal) write(MARKS_PASTES.off);
  }
  if (session !== null) print(`\nContinue this session with --session ${session.slice(0, SHORT_ID)}`);
}

await runCommandLine({
  call: "deno task chat",
  summary: "Chats with the running server's agent",
  options: {
    session: option("ID", "Continue this session; the beginning of its id suffices. Default: start one"),
    continue: flag("Continue the newest session"),
    ...SERVER_OPTIONS,
  },
  notes: `${KEY_NOTE} Commands in the chat:\n\n${COMMANDS}`,
}, ({ values }) => chat(values));
