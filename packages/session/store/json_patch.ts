/** How a JSON value differs from an earlier version of it. Plain data. */
export type JsonPatch =
  /** It is this value. */
  | readonly ["is", unknown]
  /** It isn't there any more. */
  | readonly ["gone"]
  /** A list that begins with so many entries of the earlier one; then come these. */
  | readonly ["list", number, ...unknown[]]
  /** An object with these changed members. */
  | { readonly [name: string]: JsonPatch };

/**
 * Returns how a JSON value differs from an earlier version: undefined if it doesn't. A member that is `undefined` counts
 * as absent, as in JSON. Lists and objects that are the same ones are not compared.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { applyPatch, diffJson } from "@tare/session/internal";
 *
 * const [before, after] = [{ list: [1, 2, 3], at: 4 }, { list: [1, 2, 5], at: 4 }];
 * const patch = diffJson(before, after)!;
 * assertEquals(patch, { list: ["list", 2, 5] });
 * assertEquals(applyPatch(before, patch), after);
 * ```
 */
export function diffJson(before: unknown, after: unknown): JsonPatch | undefined {
  if (before === after) return undefined;
  if (after === undefined) return ["gone"];
  if (Array.isArray(before) && Array.isArray(after)) {
    let same = 0;
    while (same < before.length && same < after.length && !diffJson(before[same], after[same])) same++;
    if (same === before.length && same === after.length) return undefined;
    return ["list", same, ...after.slice(same)];
  }
  if (!isObject(before) || !isObject(after)) return ["is", after];
  // Nearly all members are the same, and nothing is made for these.
  let changed: [name: string, patch: JsonPatch][] | undefined;
  for (const name in after) {
    const patch = diffJson(memberOf(before, name), memberOf(after, name));
    if (patch) (changed ??= []).push([name, patch]);
  }
  for (const name in before) if (!Object.hasOwn(after, name)) (changed ??= []).push([name, ["gone"]]);
  return changed && Object.fromEntries(changed);
}

/** Returns the later version of a value that {@linkcode diffJson} compared. Changes nothing. */
export function applyPatch(before: unknown, patch: JsonPatch): unknown {
  if (!isTuple(patch)) {
    const members = new Map(Object.entries(before as object));
    for (const [name, changed] of Object.entries(patch)) {
      members.set(name, applyPatch(members.get(name), changed));
    }
    return Object.fromEntries([...members].filter(([, member]) => member !== undefined));
  }
  switch (patch[0]) {
    case "is":
      return patch[1];
    case "gone":
      return undefined;
    case "list": {
      const [, same, ...more] = patch;
      return [...(before as readonly unknown[]).slice(0, same), ...more];
    }
  }
}

function isTuple(patch: JsonPatch): patch is Exclude<JsonPatch, Readonly<Record<string, JsonPatch>>> {
  return Array.isArray(patch);
}

function memberOf(value: object, name: string): unknown {
  return Object.hasOwn(value, name) ? value[name as keyof typeof value] : undefined;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
