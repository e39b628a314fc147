import type { Profile } from "@tare/planner";
import { clockRule, type IdleCall, type Rule } from "@tare/simulator/economy";

const STEP_MS = 280_000;

function fixed(most: (idle: IdleCall) => number): Rule {
  return () => () => ({
    next: (idle) =>
      idle.keepAliveRequests < most(idle) ? { type: "exact", atMs: idle.usedMs + STEP_MS } : undefined,
  });
}

const LEAST_TOKENS = 20_000;

const isWorthIt = ({ promptTokens, isFirst }: IdleCall) => promptTokens >= LEAST_TOKENS && !isFirst;

export const RULES: Readonly<Record<string, Rule>> = {
  none: () => () => ({ next: () => undefined }),
  "2 requests": fixed((idle) => isWorthIt(idle) ? 2 : 0),
  "4 requests": fixed((idle) => isWorthIt(idle) ? 4 : 0),
  "11 requests": fixed((idle) => isWorthIt(idle) ? 11 : 0),
  "4 requests, 11 for a tool": fixed((idle) => isWorthIt(idle) ? idle.pending === "tool" ? 11 : 4 : 0),
  // While the requests of a pause cost no more than rewriting the prompt.
  "ski rental": (profile) => {
    const { read, write } = profile;
    return fixed(() => Math.floor((write - read) / read))(profile);
  },
  "one hour": () => () => ({ hour: "all", next: () => undefined }),
  "one hour, head": () => () => ({ hour: "head", next: () => undefined }),
  // After the whole prompt has expired for the first time.
  "one hour, head, late": withLateHead(() => () => ({ next: () => undefined })),
  exact: clockRule(false),
  upgrade: clockRule(true),
  "upgrade, head late": withLateHead(clockRule(true)),
  oracle: (profile) => fixed((idle) => bestKeepAlive(idle, profile))(profile),
};

/** Adds a one-hour head once the provider served nothing of a known prompt. */
function withLateHead(rule: Rule): Rule {
  return (profile) => {
    const make = rule(profile);
    return () => {
      const warmer = make();
      let isLate = false;
      return {
        ...warmer,
        get hour() {
          return isLate ? "head" : undefined;
        },
        requested(request) {
          isLate ||= request.sharedTokens > 0 && request.usage.cachedTokens === 0;
          warmer.requested?.(request);
        },
      };
    };
  };
}

function bestKeepAlive(
  { requestedAtMs, nextMs, promptTokens, nextSharedTokens }: IdleCall,
  { ttlMs, read, write }: Profile,
): number {
  const pauseMs = nextMs - requestedAtMs;
  if (pauseMs <= ttlMs || pauseMs === Infinity) return 0;
  const keepAliveRequests = Math.ceil((pauseMs - ttlMs) / STEP_MS);
  return keepAliveRequests * read * promptTokens < (write - read) * nextSharedTokens ? keepAliveRequests : 0;
}
