/**
 * A simulated provider as a process of its own. A model's name says how long it thinks before it answers:
 * `after-250` thinks 250 ms. Each turn makes three calls of `read_file`, one a step, and then answers.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { simulator, toolCall } from "@tare/simulator";

/** Steps in which a turn calls a tool. */
const TOOL_STEPS = 3;

const provider = simulator({
  async model({ model, messages }) {
    const delayMs = Number(/^after-(\d+)$/.exec(model)?.[1] ?? 0);
    if (delayMs > 0) await new Promise((resolve) => setTimeout(resolve, delayMs));
    const results = messages.length - 1 - messages.findLastIndex(({ role }) => role === "user");
    const step = Math.floor(results / 2) + 1;
    return step > TOOL_STEPS
      ? { content: "The file says what was expected of it, and nothing else." }
      : { tool_calls: [toolCall("read_file", { path: "notes.txt", start_line: step })] };
  },
  // Cheap, since the provider shares the machine with what is measured.
  tokenizer: { encode: (text) => text.split(" ").map((word) => word.length) },
});

Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ port }) => console.log(`provider listens on http://127.0.0.1:${port}/v1`),
}, provider.fetch);
