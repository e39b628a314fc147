import { assertEquals } from "@std/assert";
import { contentText, countMessageTokens, type Message, type ToolDefinition } from "@tare/messages";
import type OpenAI from "openai";

Deno.test("Message accepts what npm:openai calls a message, and ToolDefinition its function tools", () => {
  const theirs: OpenAI.ChatCompletionMessageParam[] = [{ role: "user", content: "hello" }];
  const ours: readonly Message[] = theirs;
  const tool: OpenAI.ChatCompletionFunctionTool = { type: "function", function: { name: "f" } };
  const definition: ToolDefinition = tool;
  assertEquals([countMessageTokens(ours[0]!, () => 1), definition.function.name], [5, "f"]);
});

Deno.test("contentText() joins the texts of parts and skips what has none", () => {
  assertEquals(contentText("plain"), "plain");
  assertEquals(contentText(null), "");
  assertEquals(
    contentText([
      { type: "text", text: "a" },
      { type: "image_url", image_url: { url: "x" } },
      { type: "refusal", refusal: "b" },
    ]),
    "a\nb",
  );
});
