import { assertEquals } from "@std/assert";
import type { Message, ToolDefinition } from "@tare/messages";
import { countMessageTokens } from "@tare/messages/internal";
import type OpenAI from "openai";

Deno.test("Message: npm:openai's messages are assignable, and its function tools to ToolDefinition", () => {
  const theirs: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "hello" }];
  const ours: readonly Message[] = theirs;
  const tool: OpenAI.ChatCompletionFunctionTool = { type: "function", function: { name: "f" } };
  const definition: ToolDefinition = tool;
  assertEquals([countMessageTokens(ours[0]!, () => 1), definition.function.name], [5, "f"]);
});
