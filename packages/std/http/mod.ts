// One by one: the package's own http/mod.js imports a file server whose dependencies it doesn't ship.
// @ts-types="./types.d.ts"
export { ServerSentEventParseStream } from "npm:deno-std@1.4.0/http/server_sent_event_parse_stream.js";
export * from "./etag.ts";
export * from "./status.ts";
// A type alone, which the JavaScript file doesn't have.
export type { ServerSentEventParsedMessage } from "./types.d.ts";
