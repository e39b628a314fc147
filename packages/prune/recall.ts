import { estimateTokens } from "@tare/messages";
import { checkGiven } from "@tare/messages/internal";
import type { Archive } from "./archive.ts";
import type { RecallOptions, RecallRequest, RecallResult } from "./recall_tool.ts";

/**
 * Answers a call of the recall tool: the archived original, a range of its lines, or its matching lines with
 * numbers and context. Without a reference, lists the originals that contain the text. A long answer ends
 * with a line that states how to continue. Images of an original are returned with its text.
 *
 * @throws {RangeError} if `limitTokens` is below 200, too short for a part and the way to the next one.
 * @throws {Error} if the archive can't be read.
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { memoryArchive, recallOriginal } from "@tare/prune";
 * import { formatPlaceholder } from "@tare/prune/internal";
 *
 * const archive = memoryArchive();
 * const ref = await archive.put("apple\nbanana\ncherry");
 * const { content } = await recallOriginal(archive, { ref, find: "AN" });
 * assertEquals(content, "1-apple\n2:banana\n3-cherry");
 *
 * const line = formatPlaceholder({ of: "result", tool: "list", bytes: 19, ref }, { recall: true });
 * const visible = () => [{ role: "tool", tool_call_id: "1", content: line } as const];
 * const all = await recallOriginal(archive, { find: "an" }, { visible });
 * assertEquals(all.content, `ref ${ref}, a result: 1 of 3 lines\n2:banana`);
 * ```
 */
export async function recallOriginal(
  archive: Archive,
  request: RecallRequest,
  options: RecallOptions = {},
): Promise<RecallResult> {
  checkGiven("recallOriginal()", { archive, request, options }, {
    archive: { get: "function" },
    request: { "ref?": "string", "lines?": "string", "find?": "string", "offset?": "count" },
    options: {
      "countTokens?": "counter",
      "limitTokens?": "number",
      "visible?": "function",
      "supportsImages?": "boolean",
    },
  });
  const { countTokens = estimateTokens, limitTokens = 7_000, visible, supportsImages = false } = options;
  if (!(limitTokens >= 200)) {
    throw new RangeError(`Cannot recall within ${limitTokens} tokens: the limit must be at least 200`);
  }
  // Loaded late: models recall rarely.
  const { readOriginal } = await import("./read_original.ts");
  return await readOriginal(archive, request, { countTokens, limitTokens, visible, supportsImages });
}
