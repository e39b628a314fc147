/** A JSON object of unknown fields. */
export type JsonRecord = Readonly<Record<string, unknown>>;

/** The value as a JSON object, or nothing if it is none. */
export function asRecord(value: unknown): JsonRecord | undefined {
  return typeof value === "object" && value !== null && !Array.isArray(value)
    ? value as JsonRecord
    : undefined;
}
