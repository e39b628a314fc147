import { jsonSchema, type LanguageModel, stepCountIs, tool } from "ai";
import type { Client } from "../../gateway/compare.ts";
import { parametersOf, QUESTION, SYSTEM, TOOLS } from "../../gateway/long_session.ts";

export function settings(model: LanguageModel, run: Client["run"]) {
  return {
    model,
    system: SYSTEM,
    prompt: QUESTION,
    tools: Object.fromEntries(TOOLS.map((sessionTool) => [
      sessionTool.name,
      tool({
        description: sessionTool.description,
        inputSchema: jsonSchema<Record<string, string>>(parametersOf(sessionTool)),
        execute: (input: Record<string, string>) => run(sessionTool.name, input),
      }),
    ])),
    stopWhen: stepCountIs(100),
  };
}
