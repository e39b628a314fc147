import { join, resolve } from "@std/path";
import type { Store } from "@tare/conversation";
import { openStore } from "@tare/conversation/sqlite";
import { STORE_FILE } from "./data_folder.ts";
import { freePlace, onlyPlace, type ServerPlace } from "./server_place.ts";
import { isFile } from "../settings/option.ts";
import type { Settings } from "../settings/settings.ts";

/** Room that is held so that sessions can be deleted on a full disk. */
const RESERVE_BYTES = 8 * 2 ** 20;

/** Where the server's sessions are kept. */
export interface OpenedStore {
  readonly store: Store;
  readonly place: ServerPlace;
}

/**
 * Opens the store that the settings name, a file in the data folder or a database, and ends what commands of servers that are gone left running.
 *
 * @throws {StoreError} if it can't be opened.
 */
export async function openSettingsStore(
  settings: Pick<Settings, "data" | "database" | "maxDataMiB">,
  log: (line: string) => void,
): Promise<OpenedStore> {
  const data = resolve(settings.data);
  const { database, maxDataMiB } = settings;
  if (database !== undefined) {
    // Who has no database shall not wait for its client at every start.
    const { openPostgresStore } = await import("@tare/conversation/postgres");
    if (isFile(join(data, STORE_FILE))) {
      log(`The sessions in ${data} aren't in the database: tare move moves them there.`);
    }
    const store = await openPostgresStore(database.url);
    return { store, place: await freePlace(data) };
  }
  const store = await openStore(join(data, STORE_FILE), {
    reserveBytes: RESERVE_BYTES,
    onWarning: log,
    ...(maxDataMiB !== undefined && { maxBytes: maxDataMiB * 2 ** 20 }),
  });
  return { store, place: await onlyPlace(data) };
}
