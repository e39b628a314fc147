/**
 * The web page of an agent server: chat with its sessions, cost of each call, the model's view. All files are strings in
 * this module and are served without a file system, build or network.
 *
 * @module
 */
import { ifNoneMatch } from "@std/http/etag";
import { ASSETS } from "./assets.ts";

/** Allows only the page's own files and server: no inline script or style, other origin, frame or HTML from text. */
const POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join("; ");

const TYPES: Readonly<Record<string, string>> = {
  html: "text/html; charset=utf-8",
  css: "text/css; charset=utf-8",
  js: "text/javascript; charset=utf-8",
  svg: "image/svg+xml",
};

/**
 * The page's document and files by path, each as a function that handles `GET` and `HEAD`. They contain no secrets and
 * need no key.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { page } from "@tare/page";
 *
 * const answer = page.get("/")!(new Request("http://127.0.0.1:8787/"));
 * assertEquals(answer.headers.get("content-type"), "text/html; charset=utf-8");
 * assertEquals(page.get("/tare/v1/sessions"), undefined);
 * ```
 */
export const page: ReadonlyMap<string, (request: Request) => Response> = new Map(
  Object.entries(ASSETS).map(([path, asset]) => {
    const type = TYPES[path.split(".")[1] ?? "html"] ?? "text/plain";
    return [path, (request) => answerWith(asset, { request, type })];
  }),
);

function answerWith(
  { text, tag }: (typeof ASSETS)[string],
  { request, type }: { readonly request: Request; readonly type: string },
): Response {
  const headers = {
    "content-type": type,
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    // Revalidated each time: another server version has another page.
    "cache-control": "no-cache",
    etag: `"${tag}"`,
  };
  const isKnown = !ifNoneMatch(request.headers.get("if-none-match"), headers.etag);
  if (isKnown) return new Response(null, { status: 304, headers });
  return new Response(request.method === "HEAD" ? null : text, { headers });
}
