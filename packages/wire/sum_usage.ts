import { isRecord } from "./json_record.ts";

/** Adds up what providers tell of tokens, field by field; what is no number is taken from the later one. */
export function sumUsage(one: unknown, other: unknown): unknown {
  if (!isRecord(one)) return other;
  if (!isRecord(other)) return one;
  const sum: Record<string, unknown> = { ...one };
  for (const [name, value] of Object.entries(other)) {
    const before = sum[name];
    if (typeof before === "number" && typeof value === "number") sum[name] = before + value;
    else sum[name] = isRecord(before) ? sumUsage(before, value) : value;
  }
  return sum;
}
