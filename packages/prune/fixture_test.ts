// What the tests of this package share; no tests.
import type { Message } from "@tare/messages";
import { type Archive, memoryArchive } from "@tare/prune";

export const user = (content: string): Message => ({ role: "user", content });

export const say = (content: string): Message => ({ role: "assistant", content });

/** A call and its result. */
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

/** A text of so many tokens, as `estimateTokens` counts them; different for each name. */
export const text = (tokens: number, name = "x"): string => name.repeat(tokens * 4).slice(0, tokens * 4);

/** An archive in memory, its contents, and how often something was put into it. */
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

/** What came of it, where everything could be archived. */
export async function archived<R extends { readonly failure?: Error | undefined }>(
  outcome: Promise<R>,
): Promise<Exclude<R, { readonly failure: Error }>> {
  const result = await outcome;
  if (result.failure) throw result.failure;
  return result as Exclude<R, { readonly failure: Error }>;
}

/** An archive that can't keep texts that hold `word`. */
export function failingArchive(word = ""): Archive {
  const archive = memoryArchive();
  return {
    ...archive,
    put: (content) => content.includes(word) ? Promise.reject(new Error("disk full")) : archive.put(content),
  };
}
