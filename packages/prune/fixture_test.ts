// Shared fixtures of this package's tests.
import type { Message } from "@tare/messages";
import { type Archive, memoryArchive } from "@tare/prune";

export const user = (content: string): Message => ({ role: "user", content });

export const say = (content: string): Message => ({ role: "assistant", content });

export function step(
  tool: string,
  args: Record<string, unknown> | string,
  result: string,
  id = "call",
): Message[] {
  const text = typeof args === "string" ? args : JSON.stringify(args);
  return [
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id, type: "function", function: { name: tool, arguments: text } }],
    },
    { role: "tool", tool_call_id: id, content: result },
  ];
}

/** Returns a text of this many tokens by `estimateTokens`, different for each name. */
export const text = (tokens: number, name = "x"): string => name.repeat(tokens * 4).slice(0, tokens * 4);

/** Returns an in-memory archive with its contents and the number of puts. */
export function spyArchive(): Archive & {
  readonly contents: Map<string, string>;
  readonly puts: () => number;
} {
  const contents = new Map<string, string>();
  const archive = memoryArchive(contents);
  let puts = 0;
  return {
    ...archive,
    put: (content) => (puts += 1, archive.put(content)),
    contents,
    puts: () => puts,
  };
}

/** Returns the result and throws its failure. */
export async function archived<R extends { readonly failure?: Error | undefined }>(
  outcome: Promise<R>,
): Promise<Exclude<R, { readonly failure: Error }>> {
  const result = await outcome;
  if (result.failure) throw result.failure;
  return result as Exclude<R, { readonly failure: Error }>;
}

/** Returns an archive that fails for texts that contain `word`. */
export function failingArchive(word = ""): Archive {
  const archive = memoryArchive();
  return {
    ...archive,
    put: (content) => content.includes(word) ? Promise.reject(new Error("disk full")) : archive.put(content),
  };
}
