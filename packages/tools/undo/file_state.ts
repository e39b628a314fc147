/**
 * State of a path as comparable text: missing, a folder, file, link, or unstored content by size and time.
 */
export type FileState =
  | "none"
  | `folder ${string}`
  | `unstored${string}`
  | `file ${string} ${string}`
  | `link ${string}`;

/** Change of a path, relative to the workspace. */
export type FileStateChange = readonly [path: string, before: FileState, after: FileState];

/** Created, changed or deleted file. */
export interface ChangedFile {
  readonly path: string;
  readonly change: "created" | "changed" | "deleted";
}

/** Returns whether the content of a path isn't stored. */
export function isUnstored(state: FileState): boolean {
  return state.startsWith("unstored");
}

/** Returns whether a change can't be undone because a content isn't stored. */
export function isUnstoredChange([, before, after]: FileStateChange): boolean {
  return isUnstored(before) || isUnstored(after);
}

/** Returns a sentence for each change that can't be undone. */
export function unstoredWarnings(changes: readonly FileStateChange[]): readonly string[] {
  return changes.filter(isUnstoredChange).map(([path]) =>
    `${path}: its content isn't stored: too large, no regular file, or ignored before.`
  );
}

/** Returns the inverse changes. */
export function reversed(changes: readonly FileStateChange[]): readonly FileStateChange[] {
  return changes.toReversed().map(([path, before, after]) => [path, after, before]);
}

/** Returns the changed files, and folders with changed permissions, by path. */
export function changedFiles(changes: readonly FileStateChange[]): readonly ChangedFile[] {
  return changes.flatMap(([path, before, after]): readonly ChangedFile[] => {
    const [was, is] = [isFile(before), isFile(after)];
    if (before === after) return [];
    if (isFolder(before) && isFolder(after)) return [{ path, change: "changed" }];
    if (!was && !is) return [];
    return [{ path, change: !was ? "created" : !is ? "deleted" : "changed" }];
  }).sort((a, b) => (a.path < b.path ? -1 : 1));
}

function isFile(state: FileState): boolean {
  return state !== "none" && !isFolder(state);
}

export function isFolder(state: FileState): boolean {
  return state.startsWith("folder ");
}

/** Returns the hashes of a state's contents. */
export function contentsOf(state: FileState): readonly string[] {
  const [kind, ...rest] = state.split(" ");
  return kind === "file" || kind === "link" ? rest.slice(-1) : [];
}

/** Returns the permission bits of a file or folder. */
export function modeOf(state: FileState): number {
  return parseInt(state.split(" ")[1] ?? "", 8);
}
