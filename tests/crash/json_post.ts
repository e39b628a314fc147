/** What `fetch` needs to post JSON. A text is taken for JSON already. */
export function jsonPost(body: unknown, headers: Readonly<Record<string, string>> = {}): RequestInit {
  return {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  };
}
