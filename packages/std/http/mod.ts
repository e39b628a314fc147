// Separate modules, because the package's http/mod.js imports a file server with missing dependencies.
// @ts-types="./types.d.ts"
export { ServerSentEventParseStream } from "npm:deno-std@1.4.0/http/server_sent_event_parse_stream.js";
export * from "./etag.ts";
export * from "./status.ts";
// A type, which the JavaScript file lacks.
export type { ServerSentEventParsedMessage } from "./types.d.ts";
