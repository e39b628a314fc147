// An agent of the OpenAI Agents SDK as in its documentation: rules from AGENTS.md, a shell, a subagent with the
// same shell, and a session in a file. Arguments: the protocol, the file, prompts.
import { execFile } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import process from "node:process";
import { Agent, MemorySession, OpenAIProvider, Runner, tool } from "@openai/agents";

const [protocol, file, ...prompts] = process.argv.slice(2);

const shell = tool({
  name: "shell",
  description: "Runs a command of the shell and gives its output.",
  parameters: {
    type: "object",
    properties: { command: { type: "string" } },
    required: ["command"],
    additionalProperties: false,
  },
  execute: ({ command }) =>
    new Promise((resolve) =>
      execFile(
        "bash",
        ["-c", command],
        { maxBuffer: 1e8 },
        (error, out, err) => resolve(`${out}${err}${error ? `\nExit code: ${error.code}` : ""}`),
      )
    ),
});
const helper = new Agent({ name: "Helper", model: "gpt-5", tools: [shell], instructions: readRules() });
const agent = new Agent({
  name: "Worker",
  model: "gpt-5",
  instructions: readRules(),
  tools: [
    shell,
    helper.asTool({
      toolName: "delegate",
      toolDescription: "Delegates a task to a subagent.",
      runOptions: { maxTurns: 1_000 },
      // Streams only if a listener is attached.
      onStream() {},
    }),
  ],
});
const runner = new Runner({
  modelProvider: new OpenAIProvider({ useResponses: protocol === "responses" }),
  tracingDisabled: true,
});
const session = new MemorySession({
  initialItems: existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : [],
});
const stopped = new AbortController();
process.once("SIGINT", () => stopped.abort());

for (const prompt of prompts) {
  const result = await runner.run(agent, asInput(prompt), {
    stream: true,
    session,
    maxTurns: 1_000,
    signal: stopped.signal,
  });
  result.toTextStream({ compatibleWithNodeStreams: true }).pipe(process.stdout, { end: false });
  await result.completed.catch((error) => process.stderr.write(`${error.message}\n`));
  writeFileSync(file, JSON.stringify(await session.getItems()));
}

/** What stands behind an at sign is a picture that is shown with the prompt. */
function asInput(prompt) {
  const [text, picture] = prompt.split(" @");
  if (picture === undefined) return prompt;
  const image = `data:image/png;base64,${readFileSync(picture).toString("base64")}`;
  return [{ role: "user", content: [{ type: "input_text", text }, { type: "input_image", image }] }];
}

function readRules() {
  return existsSync("AGENTS.md") ? readFileSync("AGENTS.md", "utf8") : "";
}
