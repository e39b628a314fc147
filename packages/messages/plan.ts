/** Name of the tool with which the model updates its plan. */
export const PLAN_TOOL_NAME = "update_plan";

/** The model's plan, as displayed to users. */
export interface WorkPlan {
  /** Steps in order, one line each. */
  readonly steps: readonly string[];
  /** Number of finished steps; the next one is in progress. */
  readonly done: number;
}

/**
 * Returns the plan after a call: `steps` begin a new plan, `done` updates the current one; other calls change
 * nothing.
 */
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
    // The tool reports malformed arguments to the model.
    return {};
  }
}
