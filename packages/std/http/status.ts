// @ts-types="./types.d.ts"
export { isStatus, STATUS_TEXT } from "npm:deno-std@1.4.0/http/status.js";
// A type alone, which the JavaScript file doesn't have.
export type { StatusCode } from "./types.d.ts";
