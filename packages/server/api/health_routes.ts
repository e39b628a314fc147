import { Type } from "typebox";
import { route } from "../http/route.ts";
import { closed, optionalText } from "../http/schema.ts";
import type { AgentOptions } from "../agent_options.ts";

/** A clock that differs so much from the store's, in milliseconds, decides wrongly when somebody's time is over. */
const CLOCK_MS = 60_000;

/** Longest time that the store may take to answer, in milliseconds: probes ask again, and take none for an answer too. */
const STORE_MS = 1_000;

/**
 * How a server is, for those who start it again or send requests elsewhere: its routes, and what says that from now on it
 * isn't ready, because it ends.
 *
 * Tells alive from ready. Alive is whoever answers, without looking at anything: one that isn't should be started again.
 * Ready is who can take a request now: others should get it as long as one isn't.
 */
export function health({ store, models: { countTokens }, http: { instance } = {} }: AgentOptions) {
  let isEnding = false;
  let isCounting = false;
  const unready = async (): Promise<string[]> => {
    // Whoever asks first lets it be loaded, and doesn't wait.
    if (!isCounting) countTokens().then(() => isCounting = true, () => {});
    const aheadMs = store.shared ? store.now() - Date.now() : 0;
    const isReached = await within(STORE_MS, store.getSession("health"));
    return [
      ...(isEnding ? ["the server is ending"] : []),
      ...(isCounting ? [] : ["the token counter isn't loaded"]),
      ...(isReached ? [] : ["the store doesn't answer"]),
      ...(Math.abs(aheadMs) <= CLOCK_MS ? [] : [
        `this machine's clock is ${Math.round(Math.abs(aheadMs) / 1000)} seconds ${
          aheadMs > 0 ? "behind" : "ahead of"
        } the database's, by which all servers go`,
      ]),
      // Whoever sends requests here shall look first. A start behind that is one that somebody has made.
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
        summary: "Says that the server is up, without looking at anything.",
        isPublic: true,
        responses: { 200: { description: "It is up.", content: status("ok", { instance: INSTANCE }) } },
        answer: () => ({ json: { status: "ok", ...(instance !== undefined && { instance }) } }),
      }),
      route({
        method: "GET",
        path: "/health/ready",
        operationId: "getReadiness",
        summary: "Says whether the server can take requests now.",
        isPublic: true,
        responses: {
          200: { description: "It can.", content: status("ready") },
          503: {
            description: "It can't: others should get its requests.",
            content: status("unready", {
              reasons: Type.Array(Type.String(), { description: "Why, a sentence each." }),
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

const INSTANCE = optionalText("Which start of the server this is: another one after each.");

/** Whether something is done in so many milliseconds. */
async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  const late = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => late.resolve(false), ms);
  try {
    return await Promise.race([work.then(() => true, () => false), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
