import type { Effects, FileChange, JsonSchema, Tool, ToolContext, ToolOutput } from "@tare/messages";

/**
 * Refusal of a call, with the model's alternatives. {@linkcode defineTool} returns it as an error result that
 * begins with the attempt: the message completes `Cannot read "a.ts": …`.
 */
export class ToolRefusal extends Error {
  override readonly name = "ToolRefusal";
}

type CallArguments = Readonly<Record<string, unknown>>;

interface ToolSpec<Args extends CallArguments> extends Pick<Tool, "stance" | "timeoutMs"> {
  readonly name: string;
  readonly description: string;
  /** JSON Schema of each argument. No others are allowed. */
  readonly properties: { readonly [Name in keyof Args]: JsonSchema };
  readonly required?: readonly (keyof Args & string)[];
  readonly reads?: keyof Args & string;
  readonly writes?: keyof Args & string;
  isContained?(args: Args): boolean;
  effects?(args: Args): Promise<Effects>;
  preview?(args: Args, context: ToolContext): Promise<FileChange | undefined>;
  clearUp?(args: Args, context: Pick<ToolContext, "callId">): Promise<void>;
  /** Returns the action of a call, such as `read src/a.ts`, for errors: "Cannot …: why". */
  attempt(args: Args): string;
  run(args: Args, context: ToolContext): Promise<ToolOutput>;
}

/**
 * Returns a tool that returns refusals and system errors as error results. Any other error is a bug and is
 * thrown.
 */
export function defineTool<Args extends CallArguments>(spec: ToolSpec<Args>): Tool {
  const { name, description, properties, required, attempt, preview, clearUp, run, ...rest } = spec;
  const parameters = {
    type: "object",
    properties,
    ...(required && { required }),
    additionalProperties: false,
  };
  const problemOf = (args: Args, error: unknown) => `Cannot ${attempt(args)}: ${refusalReason(error)}`;
  return {
    definition: { type: "function", function: { name, description, parameters } },
    ...rest as Pick<Tool, Exclude<keyof typeof rest, "required">>,
    async run(args, context) {
      context.signal.throwIfAborted();
      try {
        return await run(args as Args, context);
      } catch (error) {
        return { content: problemOf(args as Args, error), error: true };
      }
    },
    ...(clearUp && {
      async clearUp(args: CallArguments, context: Pick<ToolContext, "callId">) {
        try {
          await clearUp(args as Args, context);
        } catch (error) {
          // An inaccessible path, such as in a deleted folder, must not end the turn.
          if (!(error instanceof ToolRefusal) && ioReason(error) === undefined) throw error;
        }
      },
    }),
    ...(preview && {
      async preview(args: CallArguments, context: ToolContext) {
        try {
          return await preview(args as Args, context);
        } catch (error) {
          return { problem: problemOf(args as Args, error) };
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
  ELOOP: "its symbolic links form a cycle.",
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

/** Returns the reason of a refusal or a system error; throws others. */
export function refusalReason(error: unknown): string {
  const reason = error instanceof ToolRefusal ? error.message : ioReason(error);
  if (reason === undefined) throw error;
  return reason;
}

/** Returns the reason of a system error without absolute paths; `undefined` for other errors. */
export function ioReason(error: unknown): string | undefined {
  if (isDenied(error)) return "the server was started without permission for it.";
  const code = systemCode(error);
  return code && (REASONS[code] ?? `the system answered ${code}.`);
}

/** Returns the code of a system error, such as `ENOENT`. */
export function systemCode(error: unknown): string | undefined {
  const code = error instanceof Error && "code" in error ? error.code : undefined;
  // Codes with underscores are the runtime's, for misuse.
  return typeof code === "string" && /^E[A-Z0-9]+$/.test(code) ? code : undefined;
}

/** Returns `undefined` for the error of a missing path, and throws others. */
export function ignoreMissing(error: unknown): undefined {
  if (!isMissing(error)) throw error;
}

export function isMissing(error: unknown): boolean {
  return ["ENOENT", "ENOTDIR"].includes(systemCode(error) ?? "");
}

/** Returns whether Deno's permissions deny an access. */
export function isDenied(error: unknown): boolean {
  return error instanceof Error && error.name === "NotCapable";
}
