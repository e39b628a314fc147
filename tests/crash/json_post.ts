/** Returns `fetch` options that post JSON. A string is sent as it is. */
export function jsonPost(body: unknown, headers: Readonly<Record<string, string>> = {}): RequestInit {
  return {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  };
}
