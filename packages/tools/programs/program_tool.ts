/**
 * Code mode: with `run_program`, the model writes a short program that calls its tools, and sees only the
 * printed output.
 *
 * Results of the calls don't enter the prompt. The program runs in QuickJS, in its own worker without other
 * access, loaded with the first program.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { run } from "@tare/loop";
 * import { programTool } from "@tare/tools/programs";
 * import type { Message, ModelEvent, Tool } from "@tare/messages";
 *
 * const size: Tool = {
 *   definition: {
 *     type: "function",
 *     function: { name: "size", parameters: { type: "object", properties: { path: { type: "string" } } } },
 *   },
 *   run: ({ path }) => String(String(path).length),
 * };
 * const code = `
 *   let sum = 0;
 *   for (const path of ["a.ts", "abc.ts"]) sum += Number(await tools.size({ path }));
 *   print("Together:", sum);
 * `;
 * const call = {
 *   id: "call_1",
 *   type: "function",
 *   function: { name: "run_program", arguments: JSON.stringify({ code }) },
 * } as const;
 * const replies: readonly Message[] = [
 *   { role: "assistant", content: null, tool_calls: [call] },
 *   { role: "assistant", content: "Ten." },
 * ];
 * let asked = 0;
 * const turn = run({
 *   async *model(): AsyncGenerator<ModelEvent> {
 *     const message = replies[asked++]!;
 *     if (message.role === "assistant") yield { type: "completed", message, finishReason: "stop" };
 *   },
 *   tools: [size, programTool()],
 *   history: [],
 *   input: "How long are these names together?",
 * });
 * for (;;) {
 *   const { done, value } = await turn.next();
 *   if (!done) continue;
 *   assertEquals(value.messages[2], { role: "tool", tool_call_id: "call_1", content: "Together: 10" });
 *   break;
 * }
 * ```
 *
 * @module
 */
import type { Tool, ToolDefinition } from "@tare/messages";

/** Maximum of a timer's delay, in milliseconds: only computing time and calls limit a program. */
const NO_LIMIT_MS = 2 ** 31 - 1;

const PROGRAM_TOOL: ToolDefinition = {
  type: "function",
  function: {
    name: "run_program",
    description:
      "Runs JavaScript that calls your tools: `await tools.NAME({...})` returns a result's text or throws its error. You see " +
      "only what it prints with `print(...)` or returns: use it for many calls whose full results you don't need. No " +
      "imports, files, network or timers.",
    parameters: {
      type: "object",
      properties: { code: { type: "string", minLength: 1, description: "Body of an async function." } },
      required: ["code"],
      additionalProperties: false,
    },
  },
};

/**
 * Returns `run_program`.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { programTool } from "@tare/tools/programs";
 *
 * assertEquals(programTool().definition.function.name, "run_program");
 * ```
 */
export function programTool(): Tool {
  return {
    definition: PROGRAM_TOOL,
    timeoutMs: NO_LIMIT_MS,
    replays: true,
    async run(args, context) {
      const { playProgram } = await import("./play_program.ts");
      return playProgram(String(args.code), context);
    },
  };
}
