import type { Archive } from "@tare/prune";

/** An archive that knows what it holds. */
export interface SessionArchive extends Archive {
  /** References of all that was put and not deleted. */
  readonly refs: ReadonlySet<string>;
}

/** Keeps the references of a session's archive, so that deleting the session can delete what it archived. */
export function sessionArchive(archive: Archive): SessionArchive {
  const refs = new Set<string>();
  return {
    refs,
    async put(content) {
      const ref = await archive.put(content);
      refs.add(ref);
      return ref;
    },
    get: (ref) => archive.get(ref),
    async delete(ref) {
      await archive.delete(ref);
      refs.delete(ref);
    },
  };
}
