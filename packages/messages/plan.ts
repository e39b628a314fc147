/** Name of the tool with which the model keeps its plan. */
export const PLAN_TOOL_NAME = "update_plan";

/** What the model means to do, as a person sees it. */
export interface WorkPlan {
  /** In their order, a line each. */
  readonly steps: readonly string[];
  /** How many of them are done: the next one is under way. */
  readonly done: number;
}

/** Returns the plan after a call: steps begin a new plan, a number of done steps continues it; others change nothing. */
export function planAfter(
  plan: WorkPlan | undefined,
  { name, arguments: text }: { readonly name: string; readonly arguments: string },
): WorkPlan | undefined {
  if (name !== PLAN_TOOL_NAME) return plan;
  const { steps = plan?.steps, done = 0 } = argumentsIn(text);
  if (!Array.isArray(steps) || steps.length === 0 || !steps.every((step) => typeof step === "string")) {
    return plan;
  }
  if (typeof done !== "number" || !Number.isInteger(done) || done < 0) return plan;
  return { steps, done: Math.min(done, steps.length) };
}

function argumentsIn(text: string): { readonly steps?: unknown; readonly done?: unknown } {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    // Whoever runs it tells the model what is wrong.
    return {};
  }
}
