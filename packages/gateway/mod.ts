/**
 * Puts Tare in front of somebody else's agent: passes its model calls on to a provider with only what of each prompt
 * still pays for its place, as a function from request to response.
 *
 * README.md shows it in use.
 *
 * @module
 */
export { type Gateway, gateway } from "./gateway.ts";
export type { GatewayOptions } from "./options.ts";
export { readBody, readBytes, readPath } from "./read_request.ts";
export type { Conversations, ShownConversation } from "./sessions/conversations.ts";
