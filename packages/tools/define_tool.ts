import type { Effects, FileChange, JsonSchema, Tool, ToolContext, ToolOutput } from "@tare/messages";

/**
 * Why a tool did not do what it was asked, in words that tell the model what to do instead. {@linkcode defineTool}
 * turns it into an error result that begins with what was attempted: the message completes `Cannot read "a.ts": …`.
 */
export class Refusal extends Error {
  override readonly name = "Refusal";
}

/** What makes up a tool. */
interface ToolSpec<Args extends Readonly<Record<string, unknown>>> {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of each argument. Others are not allowed. */
  readonly properties: { readonly [Name in keyof Args]: JsonSchema };
  /** Those that a call must have. Default: none. */
  readonly required?: readonly (keyof Args & string)[];
  readonly stance: NonNullable<Tool["stance"]>;
  readonly reads?: keyof Args & string;
  readonly writes?: keyof Args & string;
  readonly timeoutMs?: number;
  isContained?(args: Args): boolean;
  /** What a call would touch. Default: nobody knows. */
  effects?(args: Args): Promise<Effects>;
  /** What a call would change. Throws as `run` would. Default: nobody knows. */
  preview?(args: Args, context: ToolContext): Promise<FileChange | undefined>;
  /** Clears away what a call may have left whose process has ended. Default: nothing is left. */
  clearUp?(args: Args, context: Pick<ToolContext, "callId">): Promise<void>;
  /** What a call tries to do, such as `read src/a.ts`; completes "Cannot …: why". */
  attempt(args: Args): string;
  run(args: Args, context: ToolContext): Promise<ToolOutput>;
}

/** Makes a tool whose refusals and system errors are error results. Anything else it throws is a bug and stays thrown. */
export function defineTool<Args extends Readonly<Record<string, unknown>>>(spec: ToolSpec<Args>): Tool {
  const { name, description, properties, required, stance, reads, writes, timeoutMs, isContained } = spec;
  const parameters = {
    type: "object",
    properties,
    ...(required && { required }),
    additionalProperties: false,
  };
  const problemOf = (args: Args, error: unknown): string => {
    const reason = error instanceof Refusal ? error.message : ioReason(error);
    if (reason === undefined) throw error;
    return `Cannot ${spec.attempt(args)}: ${reason}`;
  };
  return {
    definition: { type: "function", function: { name, description, parameters } },
    stance,
    ...(reads !== undefined && { reads }),
    ...(writes !== undefined && { writes }),
    ...(timeoutMs !== undefined && { timeoutMs }),
    ...(isContained && { isContained: (args) => isContained(args as Args) }),
    ...(spec.effects &&
      { effects: (args: Readonly<Record<string, unknown>>) => spec.effects!(args as Args) }),
    async run(args, context) {
      context.signal.throwIfAborted();
      // Whoever runs a tool has validated the arguments against `parameters`.
      const valid = args as Args;
      try {
        return await spec.run(valid, context);
      } catch (error) {
        return { content: problemOf(valid, error), error: true };
      }
    },
    ...(spec.clearUp && {
      async clearUp(args: Readonly<Record<string, unknown>>, context: Pick<ToolContext, "callId">) {
        try {
          await spec.clearUp!(args as Args, context);
        } catch (error) {
          // Where it may be out of reach now, such as in a folder that has gone, the turn goes on all the same.
          if (!(error instanceof Refusal) && ioReason(error) === undefined) throw error;
        }
      },
    }),
    ...(spec.preview && {
      async preview(args: Readonly<Record<string, unknown>>, context: ToolContext) {
        const valid = args as Args;
        try {
          return await spec.preview!(valid, context);
        } catch (error) {
          return { problem: problemOf(valid, error) };
        }
      },
    }),
  };
}

const REASONS: Readonly<Record<string, string>> = {
  E2BIG: "it is longer than the system allows. Write it to a file and run that.",
  EACCES: "permission denied.",
  EBUSY: "it is in use by the system.",
  EDQUOT: "the disk quota is used up.",
  EEXIST: "it exists already.",
  EFBIG: "the file would be larger than the system allows.",
  EIO: "the disk reported an error.",
  EISDIR: "it is a folder, not a file.",
  ELOOP: "its symbolic links lead in a circle.",
  EMFILE: "too many files are open at the moment; try again.",
  ENAMETOOLONG: "its name is longer than the file system allows.",
  ENFILE: "too many files are open at the moment; try again.",
  ENOENT: "it does not exist.",
  ENOSPC: "the disk is full.",
  ENOTDIR: "a part of its path is a file, not a folder.",
  ENOTEMPTY: "the folder is not empty.",
  EPERM: "the system does not permit it.",
  EROFS: "the file system is read-only.",
  ESTALE: "the network file system lost it; try again.",
  ETXTBSY: "it is a program that is running.",
};

/**
 * What went wrong with a file, in plain words; `undefined` if the error didn't come from the system. The
 * system's own message is not used: it names absolute paths.
 */
export function ioReason(error: unknown): string | undefined {
  // Deno's own, where this process may do only what it was allowed.
  if (error instanceof Error && error.name === "NotCapable") {
    return "this server was started without permission for it.";
  }
  const code = systemCode(error);
  return code && (REASONS[code] ?? `the system answered ${code}.`);
}

/** The system's name of an error that came from it, such as `ENOENT`. */
export function systemCode(error: unknown): string | undefined {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  // Names with underscores are the runtime's, of a caller's mistakes.
  return typeof code === "string" && /^E[A-Z0-9]+$/.test(code) ? code : undefined;
}
