// An agent of the Claude Agent SDK with Claude Code's tools and the project's rules. Arguments: new or continue, prompts.
import { readFileSync } from "node:fs";
import process from "node:process";
import { query } from "@anthropic-ai/claude-agent-sdk";

const [begin, ...prompts] = process.argv.slice(2);

// The next prompt is given when the one before is done.
let done = Promise.withResolvers();
async function* messages() {
  for (const prompt of prompts) {
    yield { type: "user", message: { role: "user", content: asContent(prompt) }, parent_tool_use_id: null };
    await done.promise;
    done = Promise.withResolvers();
  }
}

/** What stands behind an at sign is a picture that is shown with the prompt. */
function asContent(prompt) {
  const [text, picture] = prompt.split(" @");
  if (picture === undefined) return prompt;
  const source = { type: "base64", media_type: "image/png", data: readFileSync(picture).toString("base64") };
  return [{ type: "text", text }, { type: "image", source }];
}

const conversation = query({
  prompt: messages(),
  options: {
    continue: begin === "continue",
    allowedTools: ["Bash"],
    settingSources: ["project"],
    systemPrompt: { type: "preset", preset: "claude_code" },
  },
});
process.once("SIGINT", () => conversation.interrupt());
for await (const message of conversation) {
  process.stdout.write(`${JSON.stringify(message)}\n`);
  if (message.type === "result") done.resolve();
}
