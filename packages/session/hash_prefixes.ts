import { createHash } from "node:crypto";

/**
 * Returns the SHA-256 hash, in base64url, of each prefix of a history that ends with an item from position `from` on.
 * @param keys One per item, without line breaks.
 */
export function hashPrefixes(keys: readonly string[], from = 0): string[] {
  const hash = createHash("sha256").update(keys.slice(0, from).map(line).join(""));
  return keys.slice(from).map((key) => hash.update(line(key)).copy().digest("base64url"));
}

function line(key: string): string {
  return `${key}\n`;
}
