import type { Tool } from "@tare/messages";
import { PLAN_TOOL_NAME } from "@tare/messages/internal";
import { defineTool, ToolRefusal } from "./define_tool.ts";

type PlanArguments = { readonly steps?: readonly string[]; readonly done?: number };

/** Returns `update_plan`. `planAfter()` derives the plan from the calls. */
export function planTool(): Tool {
  return defineTool<PlanArguments>({
    name: PLAN_TOOL_NAME,
    description: "Shows the user your plan. Pass steps to begin or change it, otherwise only done.",
    properties: {
      steps: {
        type: "array",
        minItems: 1,
        maxItems: 30,
        items: { type: "string", minLength: 1, maxLength: 200 },
        description: "All steps in order, a few words each.",
      },
      done: {
        type: "integer",
        minimum: 0,
        maximum: 30,
        description: "How many are done, from the first.",
      },
    },
    stance: "rederivable",
    attempt: () => "keep the plan",
    run({ steps, done }) {
      if (steps === undefined && done === undefined) {
        throw new ToolRefusal("steps and done are both missing.");
      }
      if (steps && (done ?? 0) > steps.length) {
        throw new ToolRefusal(`done is ${done}, and the number of steps is ${steps.length}.`);
      }
      return Promise.resolve("The user sees it.");
    },
  });
}
