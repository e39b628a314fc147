import { isAbsolute, join } from "@std/path";

/** The variables that say where a person's data is kept, on one system or another. */
export const HOME_VARIABLES: readonly string[] = ["HOME", "XDG_DATA_HOME", "LOCALAPPDATA"];

/** The folder of a person's data; `XDG_DATA_HOME` as https://specifications.freedesktop.org/basedir-spec has it: a relative one doesn't count. */
export function dataDirectory(
  { HOME, XDG_DATA_HOME, LOCALAPPDATA }: Readonly<Record<string, string | undefined>>,
): string | undefined {
  if (Deno.build.os === "windows") return LOCALAPPDATA || undefined;
  if (Deno.build.os !== "darwin" && XDG_DATA_HOME && isAbsolute(XDG_DATA_HOME)) return XDG_DATA_HOME;
  if (!HOME) return undefined;
  return Deno.build.os === "darwin"
    ? join(HOME, "Library", "Application Support")
    : join(HOME, ".local", "share");
}
