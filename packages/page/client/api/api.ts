import { client } from "../../../server/client.ts";

export { RefusedError } from "../../../server/client.ts";

const KEY = "tare.key";

/** Told when the server wants a key, or another one than it was given; and when that one's budget is spent. */
export const gate: { locked: () => void; spent: () => void } = { locked() {}, spent() {} };

/** Keeps a key in this browser, for this server; without one it is forgotten. */
export function keepKey(key: string | undefined): void {
  if (key === undefined) localStorage.removeItem(KEY);
  else localStorage.setItem(KEY, key);
}

export function hasKey(): boolean {
  return localStorage.getItem(KEY) !== null;
}

/** Takes the key out of an address such as the server's start prints, `#key=…`, so that nobody sees it there. */
export function takeKey(): void {
  const [, key, rest = ""] = /^#key=([^/]+)(.*)$/.exec(location.hash) ?? [];
  if (key === undefined) return;
  keepKey(decodeURIComponent(key));
  history.replaceState(null, "", `#${rest || "/"}`);
}

/** The server that this page comes from. */
export const api = client({
  // A header can't hold every text; what it can't hold is no key of the server.
  token: () => localStorage.getItem(KEY)?.replaceAll(/[^\x21-\x7e]/g, "?"),
  unreachable: "Cannot reach the server: is it running?",
  refused(status) {
    if (status === 401) gate.locked();
    if (status === 402) gate.spent();
  },
});

export function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** A name for a request that may be sent again. Pages of hosts without TLS have no `randomUUID`. */
export function requestKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}
