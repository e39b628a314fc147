/**
 * Lets an editor use the running agent server, by the Agent Client Protocol over standard input and output:
 * `deno task acp`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { ndJsonStream } from "@agentclientprotocol/sdk";
import { agentClient, serverAddress } from "../agent_client.ts";
import { commandLine } from "../command_line.ts";
import { STOPPING } from "../terminal/watch_turn.ts";
import { editorAgent } from "./editor_agent.ts";
import { shownText } from "../terminal/shown_text.ts";

const HELP =
  `Lets an editor use the running agent server, by the Agent Client Protocol over standard input and output:

  deno task acp [--url URL]

  --url URL  The server. Default: by TARE_HOST and TARE_PORT, or the one of this folder

The key that is sent along is TARE_TOKEN, or the owner's of a server on this machine. The editor starts this command; docs/editors.md says how it is told to.`;

/** Longest wait for turns to be cancelled at the end, in milliseconds. */
const END_MS = 5000;

// Nothing but the protocol goes to standard output.
console.log = console.error;
console.info = console.error;
try {
  const { values } = commandLine({
    options: { url: { type: "string" }, help: { type: "boolean", short: "h" } },
  });
  if (values.help) {
    console.error(HELP);
    Deno.exit(0);
  }
  const { url, token } = await serverAddress((name) => Deno.env.get(name), values.url);
  const { app, leave } = editorAgent({
    client: agentClient(url, token),
    url,
    realPath: (folder) => Deno.realPath(folder).catch(() => folder),
  });
  const connection = app.connect(ndJsonStream(Deno.stdout.writable, Deno.stdin.readable));
  for (const signal of STOPPING) Deno.addSignalListener(signal, () => connection.close());
  await connection.closed;
  // A turn that nobody watches any more doesn't go on.
  setTimeout(() => Deno.exit(1), END_MS);
  await leave();
  Deno.exit(0);
} catch (error) {
  console.error(shownText((error as Error).message));
  Deno.exit(1);
}
