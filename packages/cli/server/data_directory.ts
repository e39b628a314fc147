import { isAbsolute, join } from "@std/path";

/** Variables that determine the user's folders for data and settings, by operating system. */
export const HOME_VARIABLES: readonly string[] = ["HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "LOCALAPPDATA"];

/**
 * Returns the user's data folder. A relative `XDG_DATA_HOME` is ignored:
 * https://specifications.freedesktop.org/basedir-spec
 */
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
