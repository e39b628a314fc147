import { join, resolve } from "@std/path";
import { freePlace, isFile, onlyPlace, ownerKey, STORE_FILE } from "@tare/cli/parts";
import { Keys, type Store } from "@tare/session";
import { expiryClock } from "@tare/session/internal";
import type { ObjectStore } from "@tare/session/s3";
import { openStore } from "@tare/session/sqlite";
import type { Settings } from "../settings/settings.ts";

/** Reserve for deleting sessions on a full disk. */
const RESERVE_BYTES = 8 * 2 ** 20;

export interface OpenData {
  readonly store: Store;
  /** Owner of the processes that commands start. */
  readonly owner: string;
  readonly ownKey: string;
  readonly keys: Keys;
  /** Delay of expiry after a jump of the clock, in milliseconds. */
  readonly lagMs: () => number;
  readonly close: () => Promise<void>;
}

interface Reports {
  readonly log: (line: string) => void;
  readonly onError: (error: unknown) => void;
}

/**
 * Opens the store and its keys, and ends processes that commands of earlier servers left running.
 *
 * @throws {StoreError} if the sessions can't be opened.
 */
export async function openData(settings: Settings, { log, onError }: Reports): Promise<OpenData> {
  const data = resolve(settings.data);
  const store = await openSettingsStore(settings, log);
  const { owner, ended, close: leave } = await (settings.database ? freePlace : onlyPlace)(data);
  if (ended > 0) {
    log(`Ended ${ended} process${ended > 1 ? "es" : ""} that commands of an earlier server left running.`);
  }
  const close = async () => {
    await store.close();
    leave();
  };
  const [newest] = await store.listSessions({ limit: 1 });
  const lagMs = expiryClock(data, { newestMs: newest?.createdAtMs, now: store.now, log });
  const ownKey = settings.token ?? await ownerKey(data).catch(async (error) => {
    await close();
    throw error;
  });
  const keys = new Keys({ store, owners: [ownKey], onError });
  // Resumed turns are charged to keys that no request has used yet.
  await keys.list();
  return {
    ...{ store, owner, ownKey, keys, lagMs },
    async close() {
      await keys.close();
      await close();
    },
  };
}

/** Opens the database, or the file in the data folder. */
async function openSettingsStore(settings: Settings, log: Reports["log"]): Promise<Store> {
  const { database, maxDataMiB } = settings;
  const path = join(resolve(settings.data), STORE_FILE);
  if (database === undefined) {
    const limits = { ...(maxDataMiB !== undefined && { maxBytes: maxDataMiB * 2 ** 20 }) };
    return await openStore(path, { reserveBytes: RESERVE_BYTES, onWarning: log, ...limits });
  }
  // Loaded only with a database.
  const { openPostgresStore } = await import("@tare/session/postgres");
  if (isFile(path)) {
    log(`The sessions in ${resolve(settings.data)} aren't in the database. Move them with tare move.`);
  }
  return await openPostgresStore(database.url, { objects: await openBucket(settings), onWarning: log });
}

/**
 * Opens the bucket for large texts, if one is set.
 *
 * @throws {StoreError} if it can't be used.
 */
export async function openBucket(
  { archive, bucketKeyId = "", bucketKey = "" }: Pick<Settings, "archive" | "bucketKeyId" | "bucketKey">,
): Promise<ObjectStore | undefined> {
  if (archive === undefined) return undefined;
  const { openS3Objects } = await import("@tare/session/s3");
  return await openS3Objects({ ...archive, accessKeyId: bucketKeyId, secretAccessKey: bucketKey });
}
