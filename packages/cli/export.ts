/**
 * Writes a session as chat messages, one a line, or as a file for people: `deno task export ID`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { connect } from "./agent_client.ts";
import { callersPath, KEY_NOTE, option, runCommandLine, SERVER_OPTIONS } from "./command_line.ts";
import { shownLines } from "./terminal/shown_text.ts";

await runCommandLine({
  call: "deno task export",
  summary: "Writes a session as chat messages, one a line of JSON, to standard output",
  usage: ["[--url URL] [--html FILE] ID"],
  options: {
    html: option(
      "FILE",
      "Writes it into FILE for people instead: one page, in which nothing runs or is fetched. All that was said is\n" +
        "in it, and what tools read: look through it before you pass it on",
    ),
    ...SERVER_OPTIONS,
  },
  notes: KEY_NOTE,
  hasWords: true,
}, async ({ values, positionals: [id] }) => {
  if (id === undefined) return "usage";
  const { client } = await connect(values.url);
  if (values.html !== undefined) {
    const path = callersPath(values.html);
    await Deno.writeFile(path, await client.exportSession(id, "html"), { mode: 0o600 });
    return console.error(`Wrote ${path}. All that was said is in it, and what tools read.`);
  }
  const lines = await client.exportSession(id);
  const shown = new TransformStream<string, string>({
    transform: (text, controller) => controller.enqueue(shownLines(text)),
  });
  // A file gets the bytes unchanged.
  await (Deno.stdout.isTerminal()
    ? lines.pipeThrough(new TextDecoderStream()).pipeThrough(shown).pipeThrough(new TextEncoderStream())
    : lines).pipeTo(Deno.stdout.writable);
});
