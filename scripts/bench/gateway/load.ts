/**
 * The clients of `bench:gateway`, in a process of their own. Takes tokens and requests of the sessions, then a line of
 * JSON with {@linkcode StreamOptions} for each run; prints a line with what it says of the sessions, then one for each run.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { loadTokenizer } from "@tare/messages/tiktoken";
import { growingSession, playStreams, type StreamOptions } from "./streams.ts";

const [tokens, requests] = Deno.args.map(Number);
if (!tokens || !requests) throw new RangeError("Cannot play sessions: their tokens and requests are wanted");
const session = growingSession({ tokens, requests }, (await loadTokenizer()).count);
console.log(JSON.stringify({ tokens: session.tokens, bytes: session.body("", requests - 1).length }));
let rest = "";
for await (const piece of Deno.stdin.readable.pipeThrough(new TextDecoderStream())) {
  const lines = (rest + piece).split("\n");
  rest = lines.pop() ?? "";
  for (const line of lines) {
    console.log(JSON.stringify(await playStreams(session, JSON.parse(line) as StreamOptions)));
  }
}
