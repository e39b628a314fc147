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

if (import.meta.main) {
  try {
    await chat();
    Deno.exit(0);
  } catch (error) {
    console.error((error as Error).message);
    Deno.exit(1);
  }
}
