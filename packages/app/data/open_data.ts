import { resolve } from "@std/path";
import { ownerKey } from "@tare/cli/parts";
import { Keys, type Store } from "@tare/conversation";
import type { Settings } from "../settings/settings.ts";
import { expiryClock } from "./expiry_clock.ts";
import { openSettingsStore } from "./open_store.ts";

/** What a server keeps, once it is open. */
export interface OpenData {
  readonly store: Store;
  /** Owner of the processes that commands start. */
  readonly owner: string;
  /** The owner's key. */
  readonly ownKey: string;
  readonly keys: Keys;
  /** Time by which expiry is delayed after a jump of the clock, in milliseconds. */
  readonly lagMs: () => number;
  readonly close: () => Promise<void>;
}

/** Opens the store that the settings name, and its keys. @throws {StoreError} if the sessions can't be opened. */
export async function openData(
  settings: Settings,
  { log, onError }: {
    readonly log: (line: string) => void;
    readonly onError: (error: unknown) => void;
  },
): Promise<OpenData> {
  const data = resolve(settings.data);
  const { store, place } = await openSettingsStore(settings, log);
  const { owner, ended } = place;
  if (ended > 0) {
    log(`Ended ${ended} process${ended > 1 ? "es" : ""} that commands of an earlier server left running.`);
  }
  const close = async () => {
    await store.close();
    place.close();
  };
  const [newest] = await store.listSessions({ limit: 1 });
  const lagMs = expiryClock(data, { newestMs: newest?.createdAtMs, now: store.now, log });
  const ownKey = settings.token ?? await ownerKey(data).catch(async (error) => {
    await close();
    throw error;
  });
  const keys = new Keys({ store, owners: [ownKey], onError });
  // Turns that continue after a restart are paid for by keys that nobody has shown yet.
  await keys.list();
  return {
    ...{ store, owner, ownKey, keys, lagMs },
    async close() {
      await keys.close();
      await close();
    },
  };
}
