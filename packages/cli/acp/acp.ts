/**
 * Connects an editor to the running server by the Agent Client Protocol over stdio: `deno task acp`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { ndJsonStream } from "@agentclientprotocol/sdk";
import { connect } from "../agent_client.ts";
import { KEY_NOTE, runCommandLine, SERVER_OPTIONS } from "../command_line.ts";
import { STOPPING } from "../terminal/watch_turn.ts";
import { editorAgent } from "./editor_agent.ts";

const END_MS = 5000;

// Standard output is reserved for the protocol.
console.log = console.error;
console.info = console.error;
await runCommandLine({
  call: "deno task acp",
  summary:
    "Connects an editor to the running server by the Agent Client Protocol over standard input and output",
  options: SERVER_OPTIONS,
  notes: `${KEY_NOTE} The editor starts this command; docs/agents.md describes its configuration.`,
}, async ({ values }) => {
  const { url, client } = await connect(values.url);
  const { app, leave } = editorAgent({
    client,
    url,
    realPath: (folder) => Deno.realPath(folder).catch(() => folder),
  });
  const connection = app.connect(ndJsonStream(Deno.stdout.writable, Deno.stdin.readable));
  for (const signal of STOPPING) Deno.addSignalListener(signal, () => connection.close());
  await connection.closed;
  // The editor's turns end with it.
  setTimeout(() => Deno.exit(1), END_MS);
  await leave();
});
