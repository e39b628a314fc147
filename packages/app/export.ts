/**
 * Writes a session as chat messages, one a line: `deno task export ID`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { agentClient, serverAddress } from "./agent_client.ts";
import { shownLines, shownText } from "./terminal/shown_text.ts";

const HELP = `Writes a session as chat messages, one a line of JSON, to standard output:

  deno task export [--url URL] ID

  --url URL  The server. Default: by TARE_HOST and TARE_PORT, or the one of this folder

The key that is sent along is TARE_TOKEN, or the owner's of a server on this machine.`;

try {
  const { values, positionals: [id] } = parseArgs({
    allowPositionals: true,
    options: { url: { type: "string" }, help: { type: "boolean", short: "h" } },
  });
  if (values.help || id === undefined) {
    console.error(HELP);
    Deno.exit(values.help ? 0 : 2);
  }
  const { url, token } = await serverAddress((name) => Deno.env.get(name), values.url);
  const client = agentClient(url, token);
  const lines = await client.exportSession(id);
  const shown = new TransformStream<string, string>({
    transform: (text, controller) => controller.enqueue(shownLines(text)),
  });
  // A file gets the bytes as they are.
  await (Deno.stdout.isTerminal()
    ? lines.pipeThrough(new TextDecoderStream()).pipeThrough(shown).pipeThrough(new TextEncoderStream())
    : lines).pipeTo(Deno.stdout.writable);
} catch (error) {
  console.error(shownText((error as Error).message));
  Deno.exit(1);
}
