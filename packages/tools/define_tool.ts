import type { JsonSchema, Stance, Tool, ToolContext, ToolOutput } from "@tare/messages";
import { ioReason } from "./io_reason.ts";

/**
 * Why a tool did not do what it was asked, in words that tell the model what to do instead. {@linkcode defineTool}
 * turns it into an error result that begins with what was attempted: the message completes `Cannot read "a.ts": …`.
 */
export class Refusal extends Error {
  override readonly name = "Refusal";
}

/** What makes up a tool. */
export interface ToolSpec<Args extends Readonly<Record<string, unknown>>> {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of each argument. Others are not allowed. */
  readonly properties: Readonly<Record<keyof Args & string, JsonSchema>>;
  readonly required: readonly (keyof Args & string)[];
  readonly stance: Stance;
  readonly reads?: keyof Args & string;
  readonly writes?: keyof Args & string;
  readonly timeoutMs?: number;
  /** What a call tries to do, such as `read src/a.ts`; completes "Cannot …: why". */
  attempt(args: Args): string;
  run(args: Args, context: ToolContext): Promise<ToolOutput>;
}

/** Makes a tool whose refusals and system errors are error results. Anything else it throws is a bug and stays thrown. */
export function defineTool<Args extends Readonly<Record<string, unknown>>>(spec: ToolSpec<Args>): Tool {
  const { name, description, properties, required, stance, reads, writes, timeoutMs } = spec;
  const parameters = { type: "object", properties, required, additionalProperties: false };
  return {
    definition: { type: "function", function: { name, description, parameters } },
    stance,
    ...(reads !== undefined && { reads }),
    ...(writes !== undefined && { writes }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    async run(args, context) {
      context.signal.throwIfAborted();
      // Whoever runs a tool has validated the arguments against `parameters`.
      const valid = args as Args;
      try {
        return await spec.run(valid, context);
      } catch (error) {
        const reason = error instanceof Refusal ? error.message : ioReason(error);
        if (reason === undefined) throw error;
        return { content: `Cannot ${spec.attempt(valid)}: ${reason}`, error: true };
      }
    },
  };
}
