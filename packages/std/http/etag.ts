// @ts-types="./types.d.ts"
export { ifNoneMatch } from "npm:deno-std@1.4.0/http/etag.js";
