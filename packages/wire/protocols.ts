import { CHAT_PROTOCOL } from "./chat/chat_protocol.ts";
import type { Protocol } from "./protocol.ts";
import { RESPONSES_PROTOCOL } from "./responses/responses_protocol.ts";

/** All protocols. */
export const PROTOCOLS: readonly Protocol[] = [CHAT_PROTOCOL, RESPONSES_PROTOCOL];
