import { isAbsolute, relative, SEPARATOR } from "@std/path";

/** Returns the relative path with forward slashes, `.` for the folder itself; `undefined` outside of it. */
export function pathWithin(folder: string, absolute: string): string | undefined {
  const path = relative(folder, absolute);
  // On Windows, the path to another drive is absolute.
  const isOutside = path === ".." || path.startsWith(`..${SEPARATOR}`) || isAbsolute(path);
  return isOutside ? undefined : path.replaceAll(SEPARATOR, "/") || ".";
}

/** Returns whether an absolute path is a folder or leads into it. */
export function isWithin(path: string, folder: string): boolean {
  return pathWithin(folder, path) !== undefined;
}
