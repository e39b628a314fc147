/**
 * Sends one message to the running server: `deno task ask "…"`.
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
import { askUser } from "./terminal/ask_user.ts";
import { withImages } from "./terminal/named_files.ts";
import { type PipedInput, readPiped, withPiped } from "./terminal/input.ts";
import { printableJson, printableText, writeAll } from "./terminal/printable_text.ts";
import { waitingLine } from "./terminal/waiting.ts";
import { STOPPING, watchTurn } from "./terminal/watch_turn.ts";

/** Time after which waiting for standard input is reported, in milliseconds. */
const REPORTED_MS = 2_000;

async function pipedIn(): Promise<PipedInput | undefined> {
  if (Deno.stdin.isTerminal()) return undefined;
  const timer = setTimeout(() => console.error("Reading standard input until its end …"), REPORTED_MS);
  try {
    return await readPiped(Deno.stdin.readable);
  } finally {
    clearTimeout(timer);
  }
}

/** Returns the terminal's input, even if standard input is a pipe. */
function keyboard(): Readable | undefined {
  if (Deno.stdin.isTerminal()) return process.stdin;
  try {
    return Readable.fromWeb(Deno.openSync("/dev/tty").readable);
  } catch {
    return undefined;
  }
}

/** Signals within this time are one Ctrl-C: npx and deno task forward it too. */
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
  // Standard output of a pipe contains only the answer.
  const write = (piece: string) => writeAll(isSeen ? Deno.stdout : Deno.stderr, piece);
  // Some terminals wrap once the last column is filled.
  const columns = isSeen ? () => (Deno.consoleSize().columns || 80) - 1 : undefined;
  const height = () => isSeen ? Deno.consoleSize().rows : undefined;
  const line = isSeen ? waitingLine({ write, columns: () => Deno.consoleSize().columns, height }) : undefined;
  const isColored = isSeen && !Deno.noColor;
  // Read from the start, so that earlier input doesn't answer an approval request.
  const keys = line && keyboard();
  const lines = keys && createInterface({ input: keys, output: process.stdout, terminal: false });
  const approvalPrompt = line && lines &&
    askUser(lines, { write: line.write, isColored, ...(columns && { columns }) });
  const put = approvalPrompt?.write ?? line?.write ?? write;
  const print = eventPrinter(put, {
    ...{ isColored, columns },
    ...(line && { showAbove: line.above }),
  });
  put(`session ${session}\n`);
  const turn = watchTurn(client, {
    session,
    input,
    effort,
    ask: approvalPrompt?.ask,
    show(event) {
      line?.follow(event);
      if (json) console.log(printableJson(event));
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
      say(`Exited before the turn ended: it may still run in session ${session}.`);
      Deno.exit(130);
    }
  };
  const say = (sentence: string) => {
    const printable = printableText(sentence);
    try {
      if (isSeen) line?.write(`\n${printable}\n`);
      else console.error(printable);
    } catch {
      // The terminal was closed; the turn is cancelled anyway.
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
  summary: "Sends one message to the running server and prints the turn",
  usage: ['[--session ID] [--effort LEVEL] [--json] "message"'],
  options: {
    session: option("ID", "Continue this session. Default: start one"),
    effort: option(
      "LEVEL",
      "Reasoning effort, such as low or high. Default: the session's",
    ),
    json: flag("Print the events as JSON lines"),
    ...SERVER_OPTIONS,
  },
  notes:
    `Standard input is appended to the message, up to 256 KiB of text. @image.png in the message attaches an image.
${KEY_NOTE}
If standard output is a pipe, it contains only the answer; progress goes to standard error.
On a terminal, calls that do more than read need your approval; elsewhere the server's TARE_UNATTENDED decides.
Ctrl-C cancels the turn. A second Ctrl-C exits without waiting for its end.`,
  hasWords: true,
}, async ({ values: { url, session, effort, json = false }, positionals }) => {
  const question = positionals.join(" ").trim();
  const piped = await pipedIn();
  if (question === "" && !piped) return "usage";
  if (piped?.isCut) {
    console.error(`Standard input is too long: only its first ${piped.text.length} characters are sent.`);
  }
  const input = await withImages(piped ? withPiped(question, piped) : question, {
    folder: callersPath("."),
    typed: question,
  });
  const { client } = await connect(url);
  const end = await ask(client, {
    input,
    session: session === undefined ? await client.createSession() : await client.findSession(session),
    effort,
    json,
  });
  return end === "completed" ? 0 : end === "cancelled" ? 130 : 1;
});
