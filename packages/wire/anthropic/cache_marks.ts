import { isRecord } from "../json_record.ts";
import { readJsonAt } from "../json_spans.ts";
import { readField, type WireRequest } from "../read_request.ts";

/** A place up to which a request asks its provider to cache the prompt. */
export interface CacheMark {
  /** Whether it stands with a tool or with a message. */
  readonly of: "tool" | "message";
  /** Which of the tools, or of the messages of all items. */
  readonly at: number;
  /** For how long, in milliseconds since the last use. */
  readonly ttlMs: number;
}

/** Most marks that a request may have. */
export const MAX_CACHE_MARKS = 4;

/** How long a prompt is cached where no other time is asked for, in milliseconds since the last use. */
export const SHORT_TTL_MS = 300_000;

const HOUR_MS = 3_600_000;

/** The marks of a request, in the order of the prompt. All marks of the system prompt stand with its one message. */
export function readCacheMarks(request: WireRequest): CacheMark[] {
  const { tools = [], items } = request;
  const marks: CacheMark[] = [];
  for (const [at, { bytes }] of tools.entries()) {
    const tool = readJsonAt(bytes, { start: 0, end: bytes.length });
    marks.push(...ttlsOf([tool]).map((ttlMs) => ({ of: "tool" as const, at, ttlMs })));
  }
  let at = 0;
  for (const { parts, bytes } of items) {
    if (!bytes) {
      const ttls = ttlsOf(readField(request, "system"));
      marks.push(...ttls.map((ttlMs) => ({ of: "message" as const, at, ttlMs })));
    }
    for (const { mark } of parts) {
      if (mark !== undefined) marks.push({ of: "message", at, ttlMs: ttlOf(JSON.parse(mark)) });
      at++;
    }
  }
  const whole = readField(request, "cache_control");
  if (isRecord(whole)) marks.push({ of: "message", at: at - 1, ttlMs: ttlOf(whole) });
  return marks;
}

function ttlsOf(values: unknown): number[] {
  if (!Array.isArray(values)) return [];
  return values.flatMap((value) =>
    isRecord(value) && isRecord(value.cache_control) ? [ttlOf(value.cache_control)] : []
  );
}

function ttlOf(mark: unknown): number {
  return isRecord(mark) && mark.ttl === "1h" ? HOUR_MS : SHORT_TTL_MS;
}
