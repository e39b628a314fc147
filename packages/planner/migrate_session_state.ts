/** What states held before their mechanisms had the names that they have elsewhere. */
interface OldState {
  readonly bounded?: readonly number[];
  readonly edits?: readonly { readonly type?: string; readonly mechanism?: string }[];
}

/**
 * The state of a prompt session in today's form, whenever it was stored: results that were truncated on arrival were
 * once called `bounded`, and their mechanism `bound`; edits that summarise were called `fold`. A state of today comes
 * back as it is.
 */
export function migrateSessionState(state: unknown): unknown {
  if (typeof state !== "object" || state === null) return state;
  const { bounded, edits, ...rest } = state as OldState;
  const isOld = bounded || edits?.some(({ type, mechanism }) => type === "fold" || mechanism === "bound");
  if (!isOld) return state;
  return {
    ...rest,
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
