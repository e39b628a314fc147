import type { ModelSettings } from "@tare/messages";
import type { JsonRecord } from "../json_record.ts";
import { UnknownShape } from "../protocol.ts";

/** The format's highest temperature; chat completions know higher ones. */
const MAX_TEMPERATURE = 1;

const EFFORTS: readonly string[] = ["low", "medium", "high", "xhigh", "max"];

/**
 * The fields of a request in the Messages format that say how the model shall write.
 *
 * @throws {UnknownShape} that names the setting, if the format has no place for it or for its value.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { messagesSettings } from "@tare/wire";
 *
 * assertEquals(messagesSettings({ temperature: 0.2, reasoning_effort: "low", parallel_tool_calls: false }), {
 *   temperature: 0.2,
 *   output_config: { effort: "low" },
 *   tool_choice: { type: "auto", disable_parallel_tool_use: true },
 * });
 * ```
 */
export function messagesSettings(
  {
    temperature,
    top_p,
    reasoning_effort: effort,
    tool_choice: choice,
    parallel_tool_calls: parallel,
    ...rest
  }: ModelSettings,
): JsonRecord {
  const [unknown] = Object.entries(rest).find(([, value]) => value !== undefined) ?? [];
  if (unknown !== undefined) throw refused(unknown, "has no place for it");
  if (temperature !== undefined && temperature > MAX_TEMPERATURE) {
    throw refused("temperature", `takes at most ${MAX_TEMPERATURE}, and it is ${temperature}`);
  }
  if (effort !== undefined && !EFFORTS.includes(effort)) {
    throw refused("reasoning_effort", `takes ${EFFORTS.join(", ")}, and it is ${JSON.stringify(effort)}`);
  }
  return {
    ...(temperature !== undefined && { temperature }),
    ...(top_p !== undefined && { top_p }),
    ...(effort !== undefined && { output_config: { effort } }),
    ...((choice !== undefined || parallel === false) && {
      tool_choice: {
        ...(choice === undefined
          ? { type: "auto" }
          : choice === "required"
          ? { type: "any" }
          : { type: "tool", name: choice.function.name }),
        ...(parallel === false && { disable_parallel_tool_use: true }),
      },
    }),
  };
}

function refused(param: string, state: string): UnknownShape {
  return new UnknownShape(`${param} can't be sent: the Messages format ${state}`, { param });
}
