import { MESSAGES_PROTOCOL } from "./anthropic/messages_protocol.ts";
import { CHAT_PROTOCOL } from "./chat/chat_protocol.ts";
import type { Protocol } from "./protocol.ts";
import { RESPONSES_PROTOCOL } from "./responses/responses_protocol.ts";

/** All supported protocols. */
export const PROTOCOLS: readonly Protocol[] = [CHAT_PROTOCOL, RESPONSES_PROTOCOL, MESSAGES_PROTOCOL];
