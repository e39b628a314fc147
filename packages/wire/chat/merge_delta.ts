import { asRecord, type JsonRecord } from "../json_record.ts";

/** Fields of a part of reasoning whose text grows from delta to delta. */
const GROWING = ["text", "summary", "thinking"];

/**
 * Adds a delta's fields to what came before: texts are joined, lists appended, objects merged, anything else replaced;
 * null adds nothing, but stands where nothing came before. This is how fields arrive that only the provider knows, and
 * they have to be passed back whole.
 */
export function mergeDelta(before: JsonRecord, delta: JsonRecord): JsonRecord {
  const merged: Record<string, unknown> = { ...before };
  for (const [name, value] of Object.entries(delta)) merged[name] = mergeValue(merged[name], value);
  return merged;
}

/** The fields that say something. */
export function withoutNulls(fields: JsonRecord): JsonRecord {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== null));
}

function mergeValue(before: unknown, value: unknown): unknown {
  if (value === null || value === undefined) return before ?? value;
  if (typeof before === "string" && typeof value === "string") return before + value;
  if (Array.isArray(before) && Array.isArray(value)) {
    const parts = [...before];
    for (const piece of value) appendPart(parts, piece);
    return parts;
  }
  const [old, added] = [asRecord(before), asRecord(value)];
  return old && added ? mergeDelta(old, added) : value;
}

/** Parts of reasoning come in pieces; a piece belongs to the last part if it has its type, index and id. */
function appendPart(parts: unknown[], piece: unknown): void {
  const [last, added] = [asRecord(parts.at(-1)), asRecord(piece)];
  const continues = last && added && [...GROWING, "signature"].some((name) => name in added) &&
    last.type === added.type && last.index === added.index && (added.id ?? last.id) === (last.id ?? added.id);
  if (!continues) {
    parts.push(piece);
    return;
  }
  const whole: Record<string, unknown> = { ...last };
  for (const [name, value] of Object.entries(added)) {
    if (value === null) continue;
    whole[name] = GROWING.includes(name) ? mergeValue(whole[name], value) : value;
  }
  parts[parts.length - 1] = whole;
}
