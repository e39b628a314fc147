/** Where the server is that a command talks to, and what its requests must carry. */
export interface ServerAddress {
  /** Its address. */
  readonly url: string;
  /** The bearer token, if there is one. */
  readonly token?: string;
}

/** The server by `url`, or else by TARE_HOST and TARE_PORT, as `read` gives them; the token is TARE_TOKEN. */
export function serverAddress(read: (variable: string) => string | undefined, url?: string): ServerAddress {
  const host = read("TARE_HOST") || "127.0.0.1";
  const port = read("TARE_PORT") || "8787";
  const token = read("TARE_TOKEN");
  return {
    url: url ?? `http://${host.includes(":") ? `[${host}]` : host}:${port}`,
    ...(token && { token }),
  };
}
