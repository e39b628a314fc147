import { NEW_SESSION, type PlannerState } from "./rule/planner_state.ts";

/** What states held before their mechanisms had the names that they have elsewhere, and before rent was one sum. */
interface OldState {
  readonly planner?: Partial<PlannerState>;
  readonly bounded?: readonly number[];
  readonly edits?: readonly { readonly type?: string; readonly mechanism?: string }[];
  readonly exposed?: readonly unknown[];
}

/**
 * The state of a prompt session in today's form, whenever it was stored: results that were truncated on arrival were
 * once called `bounded`, and their mechanism `bound`; edits that summarise were called `fold`; of what a planner
 * knew of rents and requests only the sums still mean the same; and of tools that the model had seen only the names were
 * known, which say nothing of what it read: they are shown in full again. A state of today comes back as it is.
 */
export function migrateSessionState(state: unknown): unknown {
  if (typeof state !== "object" || state === null) return state;
  const { bounded, edits, planner, exposed, ...rest } = state as OldState;
  const isOldPlanner = planner !== undefined && planner.carried === undefined;
  const hasNames = exposed?.some((one) => typeof one === "string") ?? false;
  const isOld = bounded || isOldPlanner || hasNames ||
    edits?.some(({ type, mechanism }) => type === "fold" || mechanism === "bound");
  if (!isOld) return state;
  return {
    ...rest,
    ...(planner && { planner: isOldPlanner ? sumsOf(planner) : planner }),
    ...(edits && {
      edits: edits.map((edit) => ({
        ...edit,
        ...(edit.type === "fold" && { type: "summarise" }),
        ...(edit.mechanism === "bound" && { mechanism: "truncate" }),
      })),
    }),
    ...(bounded && { truncated: bounded }),
    ...(exposed && { exposed: hasNames ? [] : exposed }),
  };
}

function sumsOf({ paid = 0, resend = 0, stopped = false, recognised }: Partial<PlannerState>): PlannerState {
  return { ...NEW_SESSION, paid, resend, stopped, ...(recognised !== undefined && { recognised }) };
}
