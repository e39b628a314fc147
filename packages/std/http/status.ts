// @ts-types="./types.d.ts"
export { isStatus, STATUS_TEXT } from "npm:deno-std@1.4.0/http/status.js";
// A type, which the JavaScript file lacks.
export type { StatusCode } from "./types.d.ts";
