import { Type } from "typebox";
import { route } from "../http/route.ts";
import { closed, optionalText } from "../http/schema.ts";
import type { AgentOptions } from "../agent_options.ts";

/** Tolerated difference from the store's clock, in milliseconds: beyond it the server misjudges deadlines. */
const CLOCK_MS = 60_000;

/** Longest response time of the store, in milliseconds. */
const STORE_MS = 1_000;

/**
 * Returns the health routes, and a function that marks the server as shutting down. A server that doesn't respond
 * should be restarted; one that isn't ready should get no requests.
 */
export function health({ store, models: { countTokens }, http: { instance } = {} }: AgentOptions) {
  let isEnding = false;
  let isCounting = false;
  const unready = async (): Promise<string[]> => {
    // The first probe starts loading it without waiting.
    if (!isCounting) countTokens().then(() => isCounting = true, () => {});
    const aheadMs = store.shared ? store.now() - Date.now() : 0;
    const isReached = await within(STORE_MS, store.getSession("health"));
    return [
      ...(isEnding ? ["the server is shutting down"] : []),
      ...(isCounting ? [] : ["the token counter isn't loaded"]),
      ...(isReached ? [] : ["the store doesn't respond"]),
      ...(Math.abs(aheadMs) <= CLOCK_MS ? [] : [
        `this machine's clock is ${Math.round(Math.abs(aheadMs) / 1000)} seconds ` +
        `${aheadMs > 0 ? "behind" : "ahead of"} the database's, which all servers use`,
      ]),
      // A damaged store needs the operator. A restart after that is the operator's decision.
      ...(store.damage === undefined ? [] : [store.damage]),
    ];
  };
  const status = (name: string, more: Parameters<typeof closed>[0] = {}) => ({
    "application/json": closed({ status: Type.Literal(name), ...more }),
  });
  return {
    end: () => {
      isEnding = true;
    },
    routes: [
      route({
        method: "GET",
        path: "/health",
        operationId: "getHealth",
        summary: "Reports that the server is up, without checks.",
        isPublic: true,
        responses: {
          200: { description: "The server is up.", content: status("ok", { instance: INSTANCE }) },
        },
        answer: () => ({ json: { status: "ok", ...(instance !== undefined && { instance }) } }),
      }),
      route({
        method: "GET",
        path: "/health/ready",
        operationId: "getReadiness",
        summary: "Reports whether the server can take requests now.",
        isPublic: true,
        responses: {
          200: { description: "It can.", content: status("ready") },
          503: {
            description: "Not ready: route requests elsewhere.",
            content: status("unready", {
              reasons: Type.Array(Type.String(), { description: "Reasons, a sentence each." }),
            }),
          },
        },
        answer: async () => {
          const reasons = await unready();
          if (reasons.length === 0) return { json: { status: "ready" } };
          return { status: 503, json: { status: "unready", reasons } };
        },
      }),
    ],
  };
}

const INSTANCE = optionalText("Id of this start of the server; it changes with each restart.");

async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  const late = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => late.resolve(false), ms);
  try {
    return await Promise.race([work.then(() => true, () => false), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
