import { MAX_MESSAGE_BYTES, TOO_LARGE } from "./message_limit.ts";
import type { HttpEntry } from "./read_servers.ts";
import type { McpHttpTransport, McpSdk } from "./sdk.ts";

/**
 * JSON-RPC with a server at an address, by streamable HTTP. `onBroken` is told why an answer broke off, which one does
 * too that is too large.
 */
export function httpTransport(
  { url, headers }: HttpEntry,
  { sdk, onBroken }: { readonly sdk: McpSdk; readonly onBroken: (why: string) => void },
): McpHttpTransport {
  return new sdk.StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: { ...headers } },
    async fetch(url, init) {
      const response = await fetch(url, init);
      if (!response.body || init?.method !== "POST") return response;
      const isStream = response.headers.get("content-type")?.startsWith("text/event-stream") ?? false;
      const body = limited(response.body, isStream, (why) => {
        // Who cancels a call breaks its answer off.
        if (!init.signal?.aborted) onBroken(why);
      });
      const { status, statusText, headers } = response;
      return new Response(body, { status, statusText, headers });
    },
  });
}

/** Passes bytes on until there are too many: of a stream in one line, which is where an event's data stands, else in all. */
function limited(
  body: ReadableStream<Uint8Array>,
  isStream: boolean,
  onBroken: (why: string) => void,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  let bytes = 0;
  return new ReadableStream({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) return controller.close();
        const end = isStream ? value.lastIndexOf(10) : -1;
        bytes = end < 0 ? bytes + value.length : value.length - end - 1;
        if (bytes > MAX_MESSAGE_BYTES) throw new RangeError(TOO_LARGE);
        controller.enqueue(value);
      } catch (error) {
        onBroken(error instanceof RangeError ? error.message : `its answer broke off (${error})`);
        controller.error(error);
        await reader.cancel().catch(() => {});
      }
    },
    cancel: (reason) => reader.cancel(reason),
  });
}
