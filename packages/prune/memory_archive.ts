import type { Archive } from "./archive.ts";
import { archiveRef } from "./archive_ref.ts";

/**
 * An archive in a map from reference to text; the map that is handed in, or a new one.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { memoryArchive } from "@tare/prune";
 *
 * const archive = memoryArchive();
 * const ref = await archive.put("a long result");
 * assertEquals(await archive.get(ref), "a long result");
 * ```
 */
export function memoryArchive(contents: Map<string, string> = new Map()): Archive {
  return {
    async put(content) {
      const ref = await archiveRef(content);
      if ((contents.get(ref) ?? content) !== content) {
        throw new Error(`Cannot archive a text under ${ref}: other content stands there`);
      }
      contents.set(ref, content);
      return ref;
    },
    get: (ref) => Promise.resolve(contents.get(ref)),
    delete(ref) {
      contents.delete(ref);
      return Promise.resolve();
    },
  };
}
