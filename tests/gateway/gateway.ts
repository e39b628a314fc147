import { agentHandler, type AgentOptions } from "@tare/server";
import { memoryStore } from "@tare/store";
import { WINDOW_TOKENS } from "./predict.ts";
import type { Upstream } from "./upstream.ts";

/** A gateway that listens on loopback, in front of an upstream. */
export interface Gateway extends AsyncDisposable {
  readonly baseURL: string;
  /** What clients don't get to read of its errors. */
  readonly errors: readonly unknown[];
}

/** Starts a gateway that goes by the upstream's rules, clock and tokenizer. */
export async function startGateway(
  upstream: Upstream,
  gateway: Partial<NonNullable<AgentOptions["gateway"]>> = {},
): Promise<Gateway> {
  const { tokenizer, profile, now } = upstream;
  const errors: unknown[] = [];
  const agent = agentHandler({
    model: () => {
      throw new Error("only the model agent runs here");
    },
    defaultModel: "none",
    tools: [],
    store: memoryStore(),
    countTokens: () => Promise.resolve(tokenizer.count),
    profile,
    windowTokens: WINDOW_TOKENS,
    mechanisms: { context: true, prune: true, schemas: true, truncate: false },
    now,
    onError: (error) => void errors.push(error),
    gateway: { baseURL: upstream.baseURL, ...gateway },
  });
  const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, agent.fetch);
  await Promise.resolve();
  return {
    baseURL: `http://127.0.0.1:${server.addr.port}/v1`,
    errors,
    async [Symbol.asyncDispose]() {
      await server.shutdown();
      await agent.close();
    },
  };
}
