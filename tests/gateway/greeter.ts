import { startGateway } from "./gateway.ts";
import { startUpstream } from "./upstream.ts";

/** Starts a gateway in front of a provider whose model says hello, for the README's examples. */
export async function startGreeter(): Promise<{ readonly baseURL: string } & AsyncDisposable> {
  const upstream = await startUpstream(() => ({ content: "Hello." }));
  const gateway = await startGateway(upstream);
  return {
    baseURL: gateway.baseURL,
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]();
      await upstream[Symbol.asyncDispose]();
    },
  };
}
