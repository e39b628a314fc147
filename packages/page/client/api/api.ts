import { client } from "@tare/server/client";

export { RefusedError } from "@tare/server/client";

const TOKEN = "tare.token";

/** Told when the server wants a token, or another one than it was given. */
export const gate: { locked: () => void } = { locked() {} };

/** Keeps the server's token in this browser, for this server; without one it is forgotten. */
export function keepToken(token: string | undefined): void {
  if (token === undefined) localStorage.removeItem(TOKEN);
  else localStorage.setItem(TOKEN, token);
}

/** Whether a token is kept. */
export function hasToken(): boolean {
  return localStorage.getItem(TOKEN) !== null;
}

/** The server that this page comes from. */
export const api = client({
  // A header can't hold every text; what it can't hold is no token of the server.
  token: () => localStorage.getItem(TOKEN)?.replaceAll(/[^\x21-\x7e]/g, "?"),
  unreachable: "Cannot reach the server: is it running?",
  refused(status) {
    if (status === 401) gate.locked();
  },
});

/** A name for a request that may be sent again. Pages of hosts without TLS have no `randomUUID`. */
export function requestKey(): string {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
}
