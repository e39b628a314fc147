import { join, resolve } from "@std/path";
import { endLeftCommands } from "@tare/tools/internal";
import { createHash } from "node:crypto";

interface ServerPlace {
  /** Name of the server's command processes, by which the next server finds those left running. */
  readonly owner: string;
  readonly ended: number;
  readonly close: () => void;
}

/** Returns the place of a store's only server, after ending commands of a killed one. */
export async function onlyPlace(data: string): Promise<ServerPlace> {
  const owner = ownerOf(resolve(data));
  return { owner, ended: await endLeftCommands(owner), close() {} };
}

/** Returns the first free place among a data folder's servers, after ending commands of crashed ones. */
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

/** Unlocks before closing: a process that is being started may hold the same file. */
function unlock(file: Deno.FsFile): void {
  file.unlockSync();
  file.close();
}

function ownerOf(text: string): string {
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}
