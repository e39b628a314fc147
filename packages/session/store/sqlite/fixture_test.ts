import { join } from "@std/path";
import type { Store } from "@tare/session";
import { openStore } from "@tare/session/sqlite";
import { withFolder } from "../folder_fixture_test.ts";
import { type Place, sessionRecord } from "../store_suite_fixture_test.ts";

export const inFile: Place = (test) =>
  withFolder((folder) => test((options) => openStore(join(folder, "tare.db"), options)));

export function withStore(
  test: (store: Store, path: string) => Promise<void> | void,
  options: Parameters<typeof openStore>[1] = {},
): Promise<void> {
  return withFolder(async (folder) => {
    const path = join(folder, "tare.db");
    const store = await openStore(path, options);
    try {
      await store.commit([sessionRecord("a"), sessionRecord("b")]);
      await test(store, path);
    } finally {
      await store.close();
    }
  });
}
