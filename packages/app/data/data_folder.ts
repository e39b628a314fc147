import { basename, isAbsolute, join } from "@std/path";
import { createHash } from "node:crypto";
import { realPath } from "../settings/option.ts";

/** The variables that say where a person's data is kept, on one system or another. */
export const HOME_VARIABLES: readonly string[] = ["HOME", "XDG_DATA_HOME", "LOCALAPPDATA"];

/** The file of a data folder that holds the sessions. */
export const STORE_FILE = "tare.db";

/**
 * The folder where the sessions of a workspace are kept: `data`, if somebody says so.
 *
 * @throws {RangeError} if that is the workspace.
 */
export function dataFolder(
  { workspace, data }: { readonly workspace: string; readonly data?: string },
  environment: Readonly<Record<string, string | undefined>>,
): string {
  if (data === undefined) return defaultDataFolder(workspace, environment);
  if (realPath(data) !== realPath(workspace)) return data;
  throw new RangeError(
    `Cannot start: TARE_DATA is ${
      JSON.stringify(data)
    }, which is the workspace itself, whose files the tools may ` +
      "change; it must be another folder, or one in it.",
  );
}

/**
 * Where they are kept unless somebody says otherwise: in the data directory of the platform, named after the workspace and its real path, so that projects don't mix and each can have its server.
 * Without a home folder it is `.tare` in the workspace.
 */
function defaultDataFolder(
  workspace: string,
  environment: Readonly<Record<string, string | undefined>>,
): string {
  const home = dataDirectory(environment);
  if (home === undefined) return join(workspace, ".tare");
  const path = realPath(workspace);
  const hash = createHash("sha256").update(path).digest("hex").slice(0, 8);
  return join(home, "tare", `${basename(path).slice(0, 60)}-${hash}`);
}

/** `XDG_DATA_HOME` as https://specifications.freedesktop.org/basedir-spec has it: a relative one doesn't count. */
function dataDirectory(
  { HOME, XDG_DATA_HOME, LOCALAPPDATA }: Readonly<Record<string, string | undefined>>,
): string | undefined {
  if (Deno.build.os === "windows") return LOCALAPPDATA || undefined;
  if (Deno.build.os !== "darwin" && XDG_DATA_HOME && isAbsolute(XDG_DATA_HOME)) return XDG_DATA_HOME;
  if (!HOME) return undefined;
  return Deno.build.os === "darwin"
    ? join(HOME, "Library", "Application Support")
    : join(HOME, ".local", "share");
}
