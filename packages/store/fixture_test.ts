import { join } from "@std/path";
import { openStore, type SessionStore, type StoreOptions } from "@tare/store";

/** Runs a test in a folder of its own. */
export async function withFolder(test: (folder: string) => Promise<void> | void): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await test(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** Runs a test on a new store that has the sessions `a` and `b`. */
export function withStore(
  test: (store: SessionStore, path: string) => Promise<void> | void,
  options: StoreOptions = {},
): Promise<void> {
  return withFolder(async (folder) => {
    const path = join(folder, "tare.db");
    const store = openStore(path, options);
    try {
      for (const id of ["a", "b"]) store.createSession({ id, createdAtMs: 1, settings: {} });
      await test(store, path);
    } finally {
      store.close();
    }
  });
}
