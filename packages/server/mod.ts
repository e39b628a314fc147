/** x @module */
export * from "./event_log.ts";
export * from "./http_error.ts";
export * from "./request_schemas.ts";
