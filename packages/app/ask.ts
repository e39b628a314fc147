/**
 * Puts a question to the running agent server: `deno task ask "…"`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import process from "node:process";
import { createInterface } from "node:readline";
import { parseArgs } from "node:util";
import type { TurnEndReason } from "@tare/loop";
import { eventPrinter } from "./event_printer.ts";
import { agentClient, type ServerAddress, serverAddress } from "./agent_client.ts";
import { askPerson } from "./terminal/ask_person.ts";
import { shownJson, shownText } from "./terminal/shown_text.ts";
import { waitingLine } from "./terminal/waiting_line.ts";
import { STOPPING, watchTurn } from "./terminal/watch_turn.ts";

const HELP = `Puts a question to the agent server and prints what happens:

  deno task ask [--session ID] [--effort LEVEL] [--json] "question"

  --session ID  Continue this session instead of starting one
  --effort LEVEL  How much the model shall reason, such as low or high. Default: as the session says
  --json        Print the events as JSON lines
  --url URL     The server. Default: by TARE_HOST and TARE_PORT, or the one of this folder

The key that is sent along is TARE_TOKEN, or the owner's of a server on this machine.
Into a pipe goes the answer alone; what happens meanwhile is told on standard error.
At a terminal you are asked before a call runs that does more than read; TARE_UNATTENDED of the server says what
happens elsewhere.
Ctrl-C cancels the turn. If the server doesn't answer, a second Ctrl-C leaves, and the turn may run on.`;

interface Question {
  readonly text: string;
  readonly server: ServerAddress;
  readonly session?: string;
  readonly effort?: string;
  readonly json: boolean;
}

/** Reads the command line, or says what is wrong with it. */
async function readQuestion(): Promise<Question> {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      session: { type: "string" },
      effort: { type: "string" },
      json: { type: "boolean" },
      url: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  const text = positionals.join(" ").trim();
  if (values.help || text === "") {
    console.log(HELP);
    Deno.exit(values.help ? 0 : 2);
  }
  return {
    text,
    server: await serverAddress((name) => Deno.env.get(name), values.url),
    json: values.json ?? false,
    ...(values.session !== undefined && { session: values.session }),
    ...(values.effort !== undefined && { effort: values.effort }),
  };
}

/** Within this time a second signal is the same Ctrl-C: npx and deno task pass on what the terminal sent them too. */
const SAME_KEY_MS = 1000;

async function ask(
  { text, server: { url, token }, session: given, effort, json }: Question,
): Promise<TurnEndReason> {
  const client = agentClient(url, token);
  const session = given ?? await client.createSession();
  const isSeen = Deno.stdout.isTerminal() && !json;
  // In a pipe stands the answer alone.
  const write = (piece: string) => writeAll(isSeen ? Deno.stdout : Deno.stderr, piece);
  const line = isSeen ? waitingLine({ write }) : undefined;
  const isColoured = isSeen && !Deno.noColor;
  const print = eventPrinter(line?.write ?? write, { isColoured });
  (line?.write ?? write)(`session ${session}\n`);
  // From the start: what is typed before a question is no answer to it.
  const lines = line && Deno.stdin.isTerminal()
    ? createInterface({ input: process.stdin, output: process.stdout, terminal: false })
    : undefined;
  const turn = watchTurn(client, {
    session,
    input: text,
    effort,
    ask: line && lines && askPerson(lines, { write: line.write, isColoured }),
    show(event) {
      line?.follow(event);
      if (json) console.log(shownJson(event));
      else if (isSeen || event.type !== "text_delta") print(event);
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
    if (isSeen) line?.write(`\n${shown}\n`);
    else console.error(shown);
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

function writeAll(to: typeof Deno.stdout, text: string): void {
  const bytes = new TextEncoder().encode(text);
  for (let written = 0; written < bytes.length;) written += to.writeSync(bytes.subarray(written));
}

try {
  const end = await ask(await readQuestion());
  Deno.exit(end === "completed" ? 0 : end === "cancelled" ? 130 : 1);
} catch (error) {
  console.error(shownText((error as Error).message));
  Deno.exit(1);
}
