import {
  type AssistantMessage,
  type Content,
  type ContentPart,
  contentText,
  type Message,
  type ModelRequest,
  type ModelSettings,
} from "@tare/messages";
import { describeCall } from "@tare/messages/internal";
import type { JsonRecord } from "../json.ts";
import {
  absentPart,
  EMPTY_MESSAGE,
  type LegalForms,
  type LegalMessage,
  legalPrompt,
  wellFormed,
} from "../legality.ts";

/** What servers of chat completions accept: the narrowest of their documented rules, since any may be asked. */
export const CHAT_FORMS: LegalForms = {
  name: /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/,
  id: /^[\x20-\x7e]{1,40}$/,
  schema: { makesGrammar: true },
  allowsNoSchema: true,
};

/** Options of {@linkcode chatBody}: what only some servers require. */
export interface ChatBodyOptions {
  /** Whether each reply must have reasoning: a blank stands for missing reasoning. Default: false. */
  readonly needsReasoning?: boolean | undefined;
  /** Whether each result must name its tool. Default: false. */
  readonly namesResults?: boolean | undefined;
}

/**
 * Returns the fields of a chat-completions request that hold its prompt, `messages` and `tools`, and its settings. Pictures
 * in results, which that format lets only users show, follow in a message of the user. Every server that speaks the format
 * accepts them, whatever the model, a tool or a client produced: names and ids that are not legal are replaced, arguments
 * that are no JSON object are put into one, schemas are reshaped.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { chatBody } from "@tare/wire";
 *
 * const messages = [{ role: "user", content: "Hi." }] as const;
 * assertEquals(chatBody({ messages, tools: [], settings: { seed: 1 } }), { messages: [...messages], seed: 1 });
 * ```
 */
export function chatBody(
  request: Pick<ModelRequest, "messages" | "tools" | "settings">,
  { needsReasoning = false, namesResults = false }: ChatBodyOptions = {},
): JsonRecord {
  const { settings = {} } = request;
  const legal = legalPrompt(request, CHAT_FORMS);
  const tools = legal.tools.map(({ definition }) => definition);
  const named = namesResults ? withNames(legal.messages) : legal.messages.map(({ message }) => message);
  const messages = picturesBehind(named).map((message) => chatMessage(message, needsReasoning));
  return wellFormed({
    messages: messages.length > 0 ? messages : [{ role: "user", content: EMPTY_MESSAGE }],
    // An empty list is refused.
    ...(tools.length > 0 && { tools }),
    ...settingsOf(settings, legal.nameOf),
  });
}

function settingsOf(
  { tool_choice: choice, ...settings }: ModelSettings,
  nameOf: (name: string) => string,
): JsonRecord {
  if (choice === undefined || choice === "required") {
    return { ...settings, ...(choice && { tool_choice: choice }) };
  }
  return {
    ...settings,
    tool_choice: { ...choice, function: { ...choice.function, name: nameOf(choice.function.name) } },
  };
}

/** The messages, each result with the name of its tool. */
function withNames(messages: readonly LegalMessage[]): readonly Message[] {
  const names = new Map<string, string>();
  return messages.map(({ message }) => {
    if (message.role === "assistant") {
      for (const call of message.tool_calls ?? []) names.set(call.id, describeCall(call).name);
    }
    return message.role === "tool" ? { ...message, name: names.get(message.tool_call_id) ?? "" } : message;
  });
}

/** A message as chat completions have it, without what only the planner reads. */
function chatMessage(message: Message, needsReasoning: boolean): Message {
  if (message.role === "assistant") return chatReply(message, needsReasoning);
  if (message.role === "function") return message;
  const { keep: _, failed: __, findsTools: ___, ...sent } = { keep: 0, failed: 0, findsTools: 0, ...message };
  const content = contentFor(message.role, message.content);
  const isEmpty = content.length === 0 && message.role !== "tool";
  const shown = isEmpty ? EMPTY_MESSAGE : content.length === 0 ? "" : content;
  return withLegalName({ ...sent, content: shown });
}

/** Names of those who write, as providers take them. */
const WRITER = /^[A-Za-z0-9_-]{1,64}$/;

function withLegalName<Sent extends Message>(message: Sent): Sent {
  if (!("name" in message) || WRITER.test(String(message.name))) return message;
  const { name: _, ...rest } = message;
  return rest as Sent;
}

function chatReply(message: AssistantMessage, needsReasoning: boolean): Message {
  const { carried: _, keep: __, findsTools: ___, refusal, ...said } = message;
  const content = message.content && contentFor("assistant", message.content);
  const isSilent = !content || content.length === 0;
  const hasCalls = (message.tool_calls ?? []).length > 0;
  return withLegalName({
    ...said,
    // Some servers want a text, and know no refusal beside it.
    ...(isSilent
      ? { content: hasCalls ? message.content === "" ? "" : null : refusal || EMPTY_MESSAGE }
      : { content }),
    ...(!isSilent && refusal !== undefined && { refusal }),
    ...(needsReasoning && !said.reasoning_content && { reasoning_content: " " }),
  });
}

/** Kinds of parts that a role may not show. */
function contentFor(role: "system" | "developer" | "user" | "assistant" | "tool", content: Content): Content {
  if (typeof content === "string") return content;
  const parts = content.map((part) => partFor(role, part)).filter((part) =>
    part.type === "text" ? part.text !== "" : part.type !== "refusal" || part.refusal !== ""
  );
  return parts.length === content.length && parts.every((part, at) => part === content[at]) ? content : parts;
}

function partFor(role: Parameters<typeof contentFor>[0], part: ContentPart): ContentPart {
  if (part.type === "text") return part;
  if (part.type === "refusal") return role === "assistant" ? part : { type: "text", text: part.refusal };
  return role === "user" ? part : { type: "text", text: absentPart(part.type) };
}

/** What stands in front of the pictures of results. */
const SHOWN = "What the calls above show:";

/** The messages with the pictures of a step's results in a message of the user behind these: results may hold text alone. */
function picturesBehind(messages: readonly Message[]): readonly Message[] {
  if (!messages.some((message) => message.role === "tool" && typeof message.content !== "string")) {
    return messages;
  }
  const sent: Message[] = [];
  let shown: ContentPart[] = [];
  for (const [at, message] of messages.entries()) {
    if (message.role === "tool" && typeof message.content !== "string") {
      const pictures = message.content.filter(isPicture);
      const others = message.content.filter((part) => !isPicture(part)).map((part) => partFor("tool", part));
      sent.push({ ...message, content: contentText(others) });
      shown.push(...pictures);
    } else sent.push(message);
    if (shown.length === 0 || messages[at + 1]?.role === "tool") continue;
    sent.push({ role: "user", content: [{ type: "text", text: SHOWN }, ...shown] });
    shown = [];
  }
  return sent;
}

function isPicture({ type }: ContentPart): boolean {
  return type === "image_url";
}
