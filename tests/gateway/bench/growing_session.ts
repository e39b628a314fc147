import { countRequestTokens, type CountTokens, type Message } from "@tare/messages";
import { generateWorkload } from "../../workload.ts";

export interface GrowingSession {
  readonly tokens: readonly [first: number, last: number];
  /** Body of each request. Sessions of different names share no message. */
  readonly bodies: readonly ((name: string) => string)[];
}

/** Placeholder of the session's name; no text of the workload contains it. */
const NO_NAME = "~~~~~~~~";

/**
 * Returns successive requests of a long generated session, as an agent sends them, from this many tokens on.
 */
export function growingSession(
  { tokens: wanted, requests }: { readonly tokens: number; readonly requests: number },
  countTokens: CountTokens,
): GrowingSession {
  // The sessions of the workload as one, the longest first.
  const sessions = generateWorkload().toReversed();
  const messages: Message[] = sessions.flatMap(({ messages }, number) =>
    JSON.parse(
      JSON.stringify(messages.slice(number === 0 ? 0 : 1)),
      (key, value) => key === "id" || key === "tool_call_id" ? `${value}-${number}` : value,
    )
  );
  const tools = sessions[0]!.tools;
  const tokens: number[] = [];
  const bodies: string[] = [];
  let counted = countRequestTokens({ messages: [], tools }, countTokens);
  for (const [at, message] of messages.entries()) {
    if (message.role === "assistant" && counted >= wanted && bodies.length < requests) {
      const body = { model: "gpt-5", messages: messages.slice(0, at), tools, stream: true };
      bodies.push(JSON.stringify(body).replaceAll('"content":"', `"content":"${NO_NAME} `));
      tokens.push(counted);
    }
    counted += countRequestTokens({ messages: [message] }, countTokens);
  }
  if (bodies.length < requests) {
    throw new RangeError(`Cannot make a session from ${wanted} tokens on: the workload has ${counted}`);
  }
  return {
    tokens: [tokens[0]!, tokens.at(-1)!],
    bodies: bodies.map((body) => (name) => body.replaceAll(NO_NAME, name)),
  };
}
