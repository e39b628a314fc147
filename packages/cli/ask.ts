/**
 * Puts a question to the running agent server: `deno task ask "…"`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import process from "node:process";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import type { TurnEnd } from "@tare/loop";
import type { Content } from "@tare/messages";
import { callersPath, flag, KEY_NOTE, option, runCommandLine, SERVER_OPTIONS } from "./command_line.ts";
import { eventPrinter } from "./event_printer.ts";
import { type AgentClient, connect } from "./agent_client.ts";
import { askPerson } from "./terminal/ask_person.ts";
import { withPictures } from "./terminal/named_files.ts";
import { type PipedInput, readPiped, withPiped } from "./terminal/input.ts";
import { shownJson, shownText, writeAll } from "./terminal/shown_text.ts";
import { waitingLine } from "./terminal/waiting.ts";
import { STOPPING, watchTurn } from "./terminal/watch_turn.ts";

/** Time after which the user is notified that standard input is read, in milliseconds: it may be open unnoticed. */
const TOLD_MS = 2_000;

async function pipedIn(): Promise<PipedInput | undefined> {
  if (Deno.stdin.isTerminal()) return undefined;
  const timer = setTimeout(() => console.error("Reading standard input, up to its end …"), TOLD_MS);
  try {
    return await readPiped(Deno.stdin.readable);
  } finally {
    clearTimeout(timer);
  }
}

/** Returns the terminal's input, also while something is piped in; undefined without a terminal. */
function keyboard(): Readable | undefined {
  if (Deno.stdin.isTerminal()) return process.stdin;
  try {
    return Readable.fromWeb(Deno.openSync("/dev/tty").readable);
  } catch {
    // There is none, as on Windows or in a service.
    return undefined;
  }
}

/** Within this time a second signal is the same Ctrl-C: npx and deno task forward what the terminal sent them too. */
const SAME_KEY_MS = 1000;

async function ask(
  client: AgentClient,
  { input, session, effort, json }: {
    readonly input: Content;
    readonly session: string;
    readonly effort: string | undefined;
    readonly json: boolean;
  },
): Promise<TurnEnd["reason"]> {
  const isSeen = Deno.stdout.isTerminal() && !json;
  // A pipe gets the answer only.
  const write = (piece: string) => writeAll(isSeen ? Deno.stdout : Deno.stderr, piece);
  const columns = () => isSeen ? Deno.consoleSize().columns : undefined;
  const height = () => isSeen ? Deno.consoleSize().rows : undefined;
  const line = isSeen ? waitingLine({ write, columns, height }) : undefined;
  const isColoured = isSeen && !Deno.noColor;
  // From the start: what is typed before an approval request is no answer to it.
  const keys = line && keyboard();
  const lines = keys && createInterface({ input: keys, output: process.stdout, terminal: false });
  const person = line && lines && askPerson(lines, { write: line.write, isColoured });
  const put = person?.write ?? line?.write ?? write;
  const print = eventPrinter(put, {
    isColoured,
    ...(isSeen && { columns: columns() || 100 }),
    ...(line && { showAbove: line.above }),
  });
  put(`session ${session}\n`);
  const turn = watchTurn(client, {
    session,
    input,
    effort,
    ask: person?.ask,
    show(event) {
      line?.follow(event);
      if (json) console.log(shownJson(event));
      else if (isSeen || event.type !== "text_delta" && event.type !== "assistant_message") print(event);
    },
  });
  let cancelledAt: number | undefined;
  const cancel = () => {
    if (cancelledAt === undefined) {
      cancelledAt = Date.now();
      say("Cancelling the turn …");
      turn.cancel().catch((error) => say(error.message));
    } else if (Date.now() - cancelledAt > SAME_KEY_MS) {
      say(`Left before the server said that the turn has ended: it may still run in session ${session}.`);
      Deno.exit(130);
    }
  };
  const say = (sentence: string) => {
    const shown = shownText(sentence);
    try {
      if (isSeen) line?.write(`\n${shown}\n`);
      else console.error(shown);
    } catch {
      // The terminal was closed; the turn is cancelled all the same.
    }
  };
  for (const signal of STOPPING) Deno.addSignalListener(signal, cancel);
  try {
    const { reason, text } = await turn.end;
    if (!isSeen && !json) writeAll(Deno.stdout, `${text}\n`);
    return reason;
  } finally {
    lines?.close();
    line?.close();
  }
}

await runCommandLine({
  call: "deno task ask",
  summary: "Puts a question to the agent server and prints what happens",
  usage: ['[--session ID] [--effort LEVEL] [--json] "question"'],
  options: {
    session: option("ID", "Continue this session instead of starting one"),
    effort: option(
      "LEVEL",
      "How much the model shall reason, such as low or high. Default: as the session says",
    ),
    json: flag("Print the events as JSON lines"),
    ...SERVER_OPTIONS,
  },
  notes:
    `What is piped in is sent behind the question, up to 256 KiB of text. @picture.png in it sends a picture.
${KEY_NOTE}
Into a pipe goes the answer alone; what happens meanwhile is told on standard error.
At a terminal you are asked before a call runs that does more than read; TARE_UNATTENDED of the server says what
happens elsewhere.
Ctrl-C cancels the turn. If the server doesn't answer, a second Ctrl-C leaves, and the turn may run on.`,
  hasWords: true,
}, async ({ values: { url, session, effort, json = false }, positionals }) => {
  const question = positionals.join(" ").trim();
  const piped = await pipedIn();
  if (question === "" && !piped) return "usage";
  if (piped?.isCut) {
    console.error(`Of what is piped in only the first ${piped.text.length} characters are sent.`);
  }
  const input = await withPictures(piped ? withPiped(question, piped) : question, {
    folder: callersPath("."),
    typed: question,
  });
  const { client } = await connect(url);
  const end = await ask(client, { input, session: session ?? await client.createSession(), effort, json });
  return end === "completed" ? 0 : end === "cancelled" ? 130 : 1;
});
