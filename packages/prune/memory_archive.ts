import type { Archive } from "./archive.ts";
import { archiveRef } from "./archive_ref.ts";

/**
 * An archive that lives as long as the object.
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
export function memoryArchive(): Archive {
  const contents = new Map<string, string>();
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
