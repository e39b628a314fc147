/**
 * Writes a session as chat messages, one a line, or as a file for people: `deno task export ID`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { resolve } from "@std/path";
import { agentClient, serverAddress } from "./agent_client.ts";
import { commandLine } from "./command_line.ts";
import { shownLines, shownText } from "./terminal/shown_text.ts";

const HELP = `Writes a session as chat messages, one a line of JSON, to standard output:

  deno task export [--url URL] [--html FILE] ID

  --html FILE  Writes it into FILE for people instead: one page, in which nothing runs or is fetched. All that was said is
               in it, and what tools read: look through it before you pass it on
  --url URL    The server. Default: by TARE_HOST and TARE_PORT, or the one of this folder

The key that is sent along is TARE_TOKEN, or the owner's of a server on this machine.`;

try {
  const { values, positionals: [id] } = commandLine({
    allowPositionals: true,
    options: { url: { type: "string" }, html: { type: "string" }, help: { type: "boolean", short: "h" } },
  });
  if (values.help || id === undefined) {
    console.error(HELP);
    Deno.exit(values.help ? 0 : 2);
  }
  const { url, token } = await serverAddress((name) => Deno.env.get(name), values.url);
  const client = agentClient(url, token);
  if (values.html !== undefined) {
    // A task runs in the project's folder, wherever it was started.
    const path = resolve(Deno.env.get("INIT_CWD") ?? ".", values.html);
    await Deno.writeFile(path, await client.exportSession(id, "html"), { mode: 0o600 });
    console.error(`Wrote ${path}. All that was said is in it, and what tools read.`);
    Deno.exit(0);
  }
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
