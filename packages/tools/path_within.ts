import { resolve, SEPARATOR } from "@std/path";

/**
 * Returns the path from a folder to another absolute path, with forward slashes: `.` for the folder itself, and
 * `undefined` for a path outside of it. Both are normalized.
 */
export function pathWithin(folder: string, absolute: string): string | undefined {
  if (absolute === folder) return ".";
  const prefix = folder.endsWith(SEPARATOR) ? folder : folder + SEPARATOR;
  return absolute.startsWith(prefix) ? absolute.slice(prefix.length).replaceAll(SEPARATOR, "/") : undefined;
}

/** Returns whether an absolute path is a folder or leads into it. */
export function isWithin(path: string, folder: string): boolean {
  return pathWithin(resolve(folder), resolve(path)) !== undefined;
}
