import { isRecord } from "./is_record.ts";

type Fields = Readonly<Record<string, unknown>>;

/** Adds the fields of a delta to what came before: texts are joined, lists appended, objects merged; null adds nothing. */
export function mergeFields(before: Fields, delta: Fields): Record<string, unknown> {
  const merged: Record<string, unknown> = { ...before };
  for (const [name, value] of Object.entries(delta)) {
    const old = merged[name];
    if (value === null || value === undefined) merged[name] ??= value;
    else if (typeof old === "string" && typeof value === "string") merged[name] = old + value;
    else if (Array.isArray(old) && Array.isArray(value)) merged[name] = [...old, ...value];
    else if (isRecord(old) && isRecord(value)) merged[name] = mergeFields(old, value);
    else merged[name] = value;
  }
  return merged;
}
