import { Message as StrandsMessage, TextBlock, ToolResultBlock, ToolUseBlock } from "@strands-agents/sdk";
import { contentText, type Message } from "@tare/messages";
import { formatCall, parseCall } from "./calls.ts";

type Block = StrandsMessage["content"][number];

/** What a message, or one of its blocks, was made of. */
const origins = new WeakMap<StrandsMessage | Block, Message>();
const made = new WeakMap<StrandsMessage | Block, Message>();

/**
 * Chat messages as Strands holds them: the results of one step are one message of the user, and so is an operator's
 * message inside the conversation. `rename` says what a tool is called there.
 */
export function toStrands(messages: readonly Message[], rename = (name: string) => name): StrandsMessage[] {
  const theirs: StrandsMessage[] = [];
  let results: ToolResultBlock[] | undefined;
  for (const message of messages) {
    const text = contentText(message.content);
    if (message.role === "tool") {
      const content = [new TextBlock(text)];
      const block = new ToolResultBlock({ toolUseId: message.tool_call_id, status: "success", content });
      origins.set(block, message);
      if (results) results.push(block);
      else theirs.push(new StrandsMessage({ role: "user", content: results = [block] }));
      continue;
    }
    results = undefined;
    const calls = message.role === "assistant" ? message.tool_calls ?? [] : [];
    const content = [
      ...(text === "" ? [] : [new TextBlock(text)]),
      ...calls.map((call) => {
        const { id, name, args } = parseCall(call);
        return new ToolUseBlock({ toolUseId: id, name: rename(name), input: args as ToolUseBlock["input"] });
      }),
    ];
    const theirMessage = new StrandsMessage({
      role: message.role === "assistant" ? "assistant" : "user",
      content,
    });
    for (const holder of [theirMessage, ...content]) origins.set(holder, message);
    theirs.push(theirMessage);
  }
  return theirs;
}

/** The chat messages again. */
export function fromStrands(messages: readonly StrandsMessage[]): Message[] {
  return messages.flatMap((message) => {
    if (message.role !== "assistant") {
      return message.content.map((block) => known(block) ?? keep(block, fromBlock(block)));
    }
    return [known(message) ?? keep(message, fromAssistant(message))];
  });
}

function known(holder: StrandsMessage | Block): Message | undefined {
  return origins.get(holder) ?? made.get(holder);
}

function keep(holder: StrandsMessage | Block, message: Message): Message {
  made.set(holder, message);
  return message;
}

function fromBlock(block: Block): Message {
  if (block.type !== "toolResultBlock") return { role: "user", content: textOf(block) };
  return { role: "tool", tool_call_id: block.toolUseId, content: block.content.map(textOf).join("\n") };
}

function fromAssistant({ content }: StrandsMessage): Message {
  const text = content.flatMap((block) => block.type === "textBlock" ? [block.text] : []).join("\n");
  const calls = content.flatMap((block) =>
    block.type === "toolUseBlock"
      ? [formatCall({ id: block.toolUseId, name: block.name, args: block.input as Record<string, unknown> })]
      : []
  );
  return {
    role: "assistant",
    content: text === "" ? null : text,
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

/** A block's text; all of it where it is no text. */
export function textOf(block: Block | ToolResultBlock["content"][number]): string {
  return block.type === "textBlock" ? block.text : JSON.stringify(block);
}
