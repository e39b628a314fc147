/**
 * Puts Tare in front of somebody else's agent: passes its model calls on to a provider with only what of each prompt
 * still pays for its place, as a function from request to response.
 *
 * README.md shows it in use.
 *
 * @module
 */
export { decodeRequest, readBytes } from "./decode_request.ts";
export { type Gateway, gateway } from "./gateway.ts";
export type { GatewayOptions, Upstream } from "./options.ts";
export { SESSION_DETAILS, SESSION_LIST } from "./sessions/session_report.ts";
