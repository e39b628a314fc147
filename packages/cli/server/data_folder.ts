import { basename, join } from "@std/path";
import { createHash } from "node:crypto";
import { realPath } from "@tare/tools/internal/instructions";
import { dataDirectory } from "./data_directory.ts";

export const STORE_FILE = "tare.db";

/** Returns a workspace's data folder: `data` if set. @throws {RangeError} if that is the workspace itself. */
export function dataFolder(
  { workspace, data }: { readonly workspace: string; readonly data?: string },
  environment: Readonly<Record<string, string | undefined>>,
): string {
  if (data === undefined) return defaultDataFolder(workspace, environment);
  if (realPath(data) !== realPath(workspace)) return data;
  throw new RangeError(
    `Cannot start: TARE_DATA is ${JSON.stringify(data)}, the workspace itself, whose files the tools may ` +
      "change. Use another folder, which may be inside it.",
  );
}

/** Returns the default data folder, named after the workspace; `.tare` without a home folder. */
function defaultDataFolder(
  workspace: string,
  environment: Readonly<Record<string, string | undefined>>,
): string {
  const home = dataDirectory(environment);
  if (home === undefined) return join(workspace, ".tare");
  return join(home, "tare", folderName(workspace));
}

/** Returns a file name for a folder: its own name with a hash of its path. */
export function folderName(folder: string): string {
  const path = realPath(folder);
  const hash = createHash("sha256").update(path).digest("hex").slice(0, 8);
  return `${basename(path).slice(0, 60)}-${hash}`;
}
