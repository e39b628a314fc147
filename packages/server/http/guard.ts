import { crossOrigin } from "./cross_origin.ts";
import { hostRule, LOOPBACK_HOSTS } from "./host_rule.ts";
import { errorResponse, HttpError } from "./http_error.ts";

/**
 * Puts a guard before `answer`: it refuses requests with too many header bytes (431), for another host (421), from
 * pages of other origins (403) and without the token (401), answers preflight requests, and adds to each answer the
 * headers that a browser looks for. `isPublic` says which requests need no token, `onError` is told of what clients don't get to read.
 */
export function guard(
  answer: (request: Request) => Promise<Response>,
  options: {
    /** The bearer token that requests must carry. Default: none is asked for. */
    readonly token?: string;
    /**
     * Host names that requests may name, as URLs write them; `*` stands for every IP address. Default: those of loopback.
     */
    readonly hosts?: readonly string[];
    /** Origins whose pages may use the server, such as `https://chat.example`. Default: none but its own. */
    readonly origins?: readonly string[];
    /** Most bytes that a request's headers may have together. Default: 16 KiB. */
    readonly maxHeaderBytes?: number;
  } & {
    readonly isPublic: (request: Request) => boolean;
    readonly onError: (error: unknown) => void;
  },
): (request: Request) => Promise<Response> {
  const { token, hosts = LOOPBACK_HOSTS, origins = [], maxHeaderBytes = 16 * 1024, isPublic, onError } =
    options;
  const isOurs = hostRule(hosts);
  const carriesToken = token === undefined ? () => Promise.resolve(true) : bearerToken(token);
  const pages = crossOrigin(origins);

  const check = async (request: Request): Promise<Response | undefined> => {
    if (headerBytes(request.headers) > maxHeaderBytes) {
      throw new HttpError(
        431,
        "headers_too_large",
        `Cannot read the request: its headers have more than ${maxHeaderBytes} bytes.`,
      );
    }
    if (!isOurs(request)) {
      throw new HttpError(
        421,
        "host_not_allowed",
        "Cannot answer for the host that the request names: TARE_ALLOWED_HOSTS lists names beside the server's own.",
      );
    }
    const preflight = pages.check(request);
    if (preflight) return preflight;
    if (!isPublic(request) && !await carriesToken(request)) {
      throw new HttpError(
        401,
        "unauthorized",
        "Cannot let the request in: it must carry the server's token, as in Authorization: Bearer TOKEN.",
        { "www-authenticate": "Bearer" },
      );
    }
    return undefined;
  };

  const refuse = (error: unknown) => {
    if (!(error instanceof HttpError)) onError(error);
    return errorResponse(error);
  };

  return async (request) => {
    const response = await check(request).catch(refuse) ?? await answer(request);
    pages.allow(request, response);
    // Archived text must not be taken for a page.
    response.headers.set("x-content-type-options", "nosniff");
    return response;
  };
}

/** Bytes of the headers as HTTP/1.1 writes them: each as `name: value` and a line break. */
function headerBytes(headers: Headers): number {
  let bytes = 0;
  for (const [name, value] of headers) bytes += name.length + value.length + 4;
  return bytes;
}

/**
 * Makes a function that tells whether a request carries this bearer token. It compares hashes of equal length, byte
 * for byte to the end, so that the time it takes tells nothing about the token.
 */
function bearerToken(token: string): (request: Request) => Promise<boolean> {
  let wanted: Promise<Uint8Array> | undefined;
  return async ({ headers }) => {
    const given = /^bearer +(.+)$/i.exec(headers.get("authorization") ?? "")?.[1] ?? "";
    const [a, b] = await Promise.all([wanted ??= sha256(token), sha256(given)]);
    let difference = 0;
    for (const [index, byte] of a.entries()) difference |= byte ^ (b[index] ?? 0);
    return difference === 0;
  };
}

async function sha256(text: string): Promise<Uint8Array> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text)));
}
