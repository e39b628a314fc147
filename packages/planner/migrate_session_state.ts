import { NEW_SESSION, type PlannerState } from "./rule/planner_state.ts";

/** What states held before their mechanisms had the names that they have elsewhere, and before rent was one sum. */
interface OldState {
  readonly planner?: Partial<PlannerState>;
  readonly bounded?: readonly number[];
  readonly edits?: readonly { readonly type?: string; readonly mechanism?: string }[];
}

/**
 * The state of a prompt session in today's form, whenever it was stored: results that were truncated on arrival were
 * once called `bounded`, and their mechanism `bound`; edits that summarise were called `fold`; and of what a planner
 * knew of rents and requests only the sums still mean the same. A state of today comes back as it is.
 */
export function migrateSessionState(state: unknown): unknown {
  if (typeof state !== "object" || state === null) return state;
  const { bounded, edits, planner, ...rest } = state as OldState;
  const isOldPlanner = planner !== undefined && planner.carried === undefined;
  const isOld = bounded || isOldPlanner ||
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
  };
}

function sumsOf({ paid = 0, resend = 0, stopped = false, recognised }: Partial<PlannerState>): PlannerState {
  return { ...NEW_SESSION, paid, resend, stopped, ...(recognised !== undefined && { recognised }) };
}
