// One by one: the package's own http/mod.js imports a file server whose dependencies it doesn't ship.
// @ts-types="./types.d.ts"
export { STATUS_CODE, STATUS_TEXT } from "npm:deno-std@1.4.0/http/status.js";
// @ts-types="./types.d.ts"
export { ServerSentEventStream } from "npm:deno-std@1.4.0/http/server_sent_event_stream.js";
// @ts-types="./types.d.ts"
export { ServerSentEventParseStream } from "npm:deno-std@1.4.0/http/server_sent_event_parse_stream.js";
// Types alone, which the JavaScript files don't have.
export type { ServerSentEventMessage, ServerSentEventParsedMessage, StatusCode } from "./types.d.ts";
