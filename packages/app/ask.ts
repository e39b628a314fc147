/**
 * Puts a question to the running agent server: `deno task ask "…"`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import type { TurnEndReason } from "@tare/loop";
import { eventPrinter } from "./event_printer.ts";
import { agentClient, type ServerAddress, serverAddress } from "./agent_client.ts";

const HELP = `Puts a question to the agent server and prints what happens:

  deno task ask [--session ID] [--json] "question"

  --session ID  Continue this session instead of starting one
  --json        Print the events as JSON lines
  --url URL     The server. Default: from TARE_HOST and TARE_PORT, http://127.0.0.1:8787

TARE_TOKEN is sent along if it is set.
Ctrl-C cancels the turn.`;

interface Question {
  readonly text: string;
  readonly server: ServerAddress;
  readonly session?: string;
  readonly json: boolean;
}

/** Reads the command line, or says what is wrong with it. */
function readQuestion(): Question {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      session: { type: "string" },
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
    server: serverAddress((name) => Deno.env.get(name), values.url),
    json: values.json ?? false,
    ...(values.session !== undefined && { session: values.session }),
  };
}

async function ask(
  { text, server: { url, token }, session: given, json }: Question,
): Promise<TurnEndReason | undefined> {
  const client = agentClient(url, token);
  const session = given ?? await client.createSession();
  const write = (piece: string) => void Deno.stdout.writeSync(new TextEncoder().encode(piece));
  const print = eventPrinter(write);
  (json ? console.error : console.log)(`session ${session}`);
  // The second Ctrl-C ends this process at once: the listener is gone by then.
  const cancel = () => {
    Deno.removeSignalListener("SIGINT", cancel);
    client.cancel(session).catch((error) => console.error(error.message));
  };
  Deno.addSignalListener("SIGINT", cancel);
  let end: TurnEndReason | undefined;
  for await (const event of client.startTurn(session, text)) {
    if (json) console.log(JSON.stringify(event));
    else print(event);
    if (event.type === "turn_end") end = event.reason;
  }
  if (end === undefined) throw new Error("The server closed the stream before the turn's end.");
  return end;
}

try {
  const end = await ask(readQuestion());
  Deno.exit(end === "completed" ? 0 : end === "cancelled" ? 130 : 1);
} catch (error) {
  console.error((error as Error).message);
  Deno.exit(1);
}
