import { createHash } from "node:crypto";

/**
 * Returns a SHA-256 hash, in base64url, of the start of a history up to each of its items, from the one at position `from` on.
 *
 * @param keys What identifies each item; none contains a line break.
 */
export function hashPrefixes(keys: readonly string[], from = 0): string[] {
  const hash = createHash("sha256").update(keys.slice(0, from).map(line).join(""));
  return keys.slice(from).map((key) => hash.update(line(key)).copy().digest("base64url"));
}

function line(key: string): string {
  return `${key}\n`;
}
