import { join, resolve } from "@std/path";
import { isFile, STORE_FILE } from "@tare/cli/parts";
import type { Store } from "@tare/conversation";
import type { ObjectStore } from "@tare/conversation/s3";
import { openStore } from "@tare/conversation/sqlite";
import { endLeftCommands } from "@tare/tools/internal";
import { createHash } from "node:crypto";
import type { Settings } from "../settings/settings.ts";

/** Room that is held so that sessions can be deleted on a full disk. */
const RESERVE_BYTES = 8 * 2 ** 20;

/**
 * Opens the store that the settings name, a file in the data folder or a database, and ends what commands of servers that are gone left running.
 *
 * @throws {StoreError} if it can't be opened.
 */
export async function openSettingsStore(
  settings: Pick<Settings, "data" | "database" | "maxDataMiB"> & BucketSettings,
  log: (line: string) => void,
): Promise<{ readonly store: Store; readonly place: ServerPlace }> {
  const data = resolve(settings.data);
  const { database, maxDataMiB } = settings;
  if (database !== undefined) {
    // Who has no database shall not wait for its client at every start.
    const { openPostgresStore } = await import("@tare/conversation/postgres");
    if (isFile(join(data, STORE_FILE))) {
      log(`The sessions in ${data} aren't in the database: tare move moves them there.`);
    }
    const objects = await openBucket(settings);
    const store = await openPostgresStore(database.url, { objects, onWarning: log });
    return { store, place: await freePlace(data) };
  }
  const store = await openStore(join(data, STORE_FILE), {
    reserveBytes: RESERVE_BYTES,
    onWarning: log,
    ...(maxDataMiB !== undefined && { maxBytes: maxDataMiB * 2 ** 20 }),
  });
  return { store, place: await onlyPlace(data) };
}

/** The settings that say where large texts are. */
export type BucketSettings = Pick<Settings, "archive" | "bucketKeyId" | "bucketKey">;

/**
 * Opens the bucket that the settings name, if they do.
 *
 * @throws {StoreError} if it can't be used.
 */
export async function openBucket(
  { archive, bucketKeyId = "", bucketKey = "" }: BucketSettings,
): Promise<ObjectStore | undefined> {
  if (archive === undefined) return undefined;
  const { openS3Objects } = await import("@tare/conversation/s3");
  return await openS3Objects({ ...archive, accessKeyId: bucketKeyId, secretAccessKey: bucketKey });
}

/** A server's place in a data folder. */
interface ServerPlace {
  /** A name for what its commands start, so that the next server here finds what they left running. */
  readonly owner: string;
  /** How many processes were ended that servers had left which are gone. */
  readonly ended: number;
  /** Leaves it to the next server. */
  readonly close: () => void;
}

/**
 * The place of the one server that can have the data folder, because its store lets no other in: whatever commands left
 * running there was left by a server that was killed.
 */
export async function onlyPlace(data: string): Promise<ServerPlace> {
  const owner = ownerOf(resolve(data));
  return { owner, ended: await endLeftCommands(owner), close() {} };
}

/**
 * The first free place among several servers that have one data folder. A place is a file whose lock the system releases
 * when its server's process ends, however it ends. What commands of free places left running is ended: nobody who is
 * there started it.
 */
export async function freePlace(data: string): Promise<ServerPlace> {
  const folder = resolve(data);
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  const locked: { readonly owner: string; readonly file: Deno.FsFile }[] = [];
  for (let number = 1;; number++) {
    const path = join(folder, `server-${number}.lock`);
    const options = { create: locked.length === 0, read: true, write: true, mode: 0o600 };
    const file = await Deno.open(path, options).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
    if (!file) break;
    if (file.tryLockSync(true)) locked.push({ owner: ownerOf(`${folder}\n${number}`), file });
    else file.close();
  }
  let ended = 0;
  for (const { owner } of locked) ended += await endLeftCommands(owner);
  const [own, ...free] = locked;
  for (const { file } of free) unlock(file);
  return { owner: own!.owner, ended, close: () => unlock(own!.file) };
}

/** Closing it alone would leave it locked while a process that is being started has it too. */
function unlock(file: Deno.FsFile): void {
  file.unlockSync();
  file.close();
}

function ownerOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}
