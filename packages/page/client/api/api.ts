import { client } from "../../../server/client.ts";

export { RefusedError } from "../../../server/client.ts";

const KEY = "tare.key";

/** Callbacks for a missing or rejected key, and for a used-up budget. */
export const gate: { locked: () => void; spent: () => void } = { locked() {}, spent() {} };

export function keepKey(key: string | undefined): void {
  if (key === undefined) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, key);
}

export function hasKey(): boolean {
  return localStorage.getItem(KEY) !== null;
}

/** Stores and removes a `#key=…` of the address, so that it isn't visible there. */
export function takeKey(): void {
  const [, key, rest = ""] = /^#key=([^/]+)(.*)$/.exec(location.hash) ?? [];
  if (key === undefined) return;
  keepKey(decodeURIComponent(key));
  history.replaceState(null, "", `#${rest || "/"}`);
}

/** Returns the stored key. Characters that a header can't contain occur in no key of the server. */
const storedKey = () => localStorage.getItem(KEY)?.replaceAll(/[^\x21-\x7e]/g, "?");

export const api = client({
  token: storedKey,
  unreachable: "Cannot reach the server: is it running?",
  refused(status, key) {
    // An earlier key may be refused after the user has entered another.
    if (status === 401 && key === storedKey()) gate.locked();
    if (status === 402) gate.spent();
  },
});

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** Returns an idempotency key. `randomUUID` needs a secure context. */
export function requestKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}
