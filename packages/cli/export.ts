/**
 * Exports a session as JSON lines or as an HTML page: `deno task export ID`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import type { AgentClient } from "./agent_client.ts";
import { callersPath, KEY_NOTE, option, runCommandLine, SERVER_OPTIONS } from "./command_line.ts";
import { printableLines } from "./terminal/printable_text.ts";
import { withServer } from "./with_server.ts";

await runCommandLine({
  call: "deno task export",
  summary: "Writes a session to standard output, one chat message per line of JSON",
  usage: ["[--url URL] [--html FILE] ID"],
  options: {
    html: option(
      "FILE",
      "Write a static page to FILE instead, without scripts or external resources. It contains all messages and\n" +
        "tool results: check it before you share it",
    ),
    ...SERVER_OPTIONS,
  },
  notes: `The beginning of the ID suffices. ${KEY_NOTE}`,
  hasWords: true,
}, async ({ values, positionals: [given] }) => {
  if (given === undefined) return "usage";
  return await withServer(values.url, (client) => write(client, given, values));
});

async function write(client: AgentClient, given: string, values: { readonly html?: string }): Promise<void> {
  const id = await client.findSession(given);
  if (values.html !== undefined) {
    const path = callersPath(values.html);
    await Deno.writeFile(path, await client.exportSession(id, "html"), { mode: 0o600 });
    return console.error(`Wrote ${path}. It contains all messages and tool results.`);
  }
  const lines = await client.exportSession(id);
  const printable = new TransformStream<string, string>({
    transform: (text, controller) => controller.enqueue(printableLines(text)),
  });
  // Hidden characters are escaped on a terminal only.
  await (Deno.stdout.isTerminal()
    ? lines.pipeThrough(new TextDecoderStream()).pipeThrough(printable).pipeThrough(new TextEncoderStream())
    : lines).pipeTo(Deno.stdout.writable);
}
