/** Headers that belong to one connection, to this server, or to a browser. */
const OWN_REQUEST_HEADERS = [
  "accept-encoding",
  "connection",
  "content-length",
  "cookie",
  "expect",
  "forwarded",
  "host",
  "keep-alive",
  "origin",
  "proxy-authorization",
  "proxy-connection",
  "referer",
  "te",
  "trailer",
  "transfer-encoding",
  "upgrade",
  "via",
];

/** `fetch` has decoded the body. */
const OWN_RESPONSE_HEADERS = [
  "connection",
  "content-encoding",
  "content-length",
  "keep-alive",
  "proxy-authenticate",
  "set-cookie",
  "trailer",
  "transfer-encoding",
  "upgrade",
];

/** Headers that a client's request has at the upstream. */
export function upstreamHeaders(
  request: Request,
  { apiKey, clientKeys }: { readonly apiKey?: string | undefined; readonly clientKeys: boolean },
): Headers {
  const headers = new Headers();
  for (const [name, value] of request.headers) {
    const own = OWN_REQUEST_HEADERS.includes(name) ||
      /^(x-tare(-|$)|sec-|access-control-|x-forwarded-)/.test(name);
    if (!own) headers.set(name, value);
  }
  if (!clientKeys) headers.delete("authorization");
  if (apiKey !== undefined) headers.set("authorization", `Bearer ${apiKey}`);
  return headers;
}

/** Headers of the upstream's answer that its client gets to see. */
export function answerHeaders(response: Response): Headers {
  const headers = new Headers();
  for (const [name, value] of response.headers) {
    if (!OWN_RESPONSE_HEADERS.includes(name) && !name.startsWith("access-control-")) headers.set(name, value);
  }
  return headers;
}
