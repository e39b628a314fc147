import { globToRegExp } from "@std/path";
import { RE2JS } from "re2js";

/**
 * Makes a test of relative paths (forward slashes, no slash at the end) against a glob of `*`, `?`, `[…]`, `{…,…}`
 * and `**`. A glob without a slash is held against the last name only. Matching takes linear time.
 */
export function globMatcher(glob: string): (path: string) => boolean {
  const pattern = glob.startsWith("./") ? glob.slice(2) : glob;
  const regExp = RE2JS.compile(globToRegExp(pattern, { extended: false }).source);
  if (pattern.includes("/")) return (path) => regExp.matches(path);
  return (path) => regExp.matches(path.slice(path.lastIndexOf("/") + 1));
}
