/** When a conversation was last alive. Times are milliseconds since the epoch. */
export interface ColdResumeOptions {
  /** When its last successful request was made; not when it was last saved. Unknown counts as warm. */
  readonly lastUsedAtMs: number | undefined;
  /** The time now. */
  readonly nowMs: number;
  /** Idle time after which the provider's cache is surely gone. Default 24 hours. */
  readonly cacheColdAfterMs?: number;
}

/**
 * Whether a conversation is resumed so late that its cached prefix is gone: then its next request is read anew
 * anyway, and pruning it first costs nothing.
 */
export function isColdResume(options: ColdResumeOptions): boolean {
  const { lastUsedAtMs, nowMs, cacheColdAfterMs = 24 * 60 * 60 * 1000 } = options;
  return lastUsedAtMs !== undefined && nowMs - lastUsedAtMs >= cacheColdAfterMs;
}
