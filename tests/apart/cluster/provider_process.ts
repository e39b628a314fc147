/**
 * Runs the recording provider with a seed as a process of its own, and prints its address.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { recorder } from "../../recording_provider.ts";
import { seeded } from "../../seeded.ts";
import { clusterModel } from "./cluster_model.ts";

const random = seeded(Number(Deno.args[0]));
const provider = recorder(clusterModel(random), { random, maxPauseMs: 8 });

Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ port }) => console.log(`listens on http://127.0.0.1:${port}`),
}, async (request) => {
  const { pathname, searchParams } = new URL(request.url);
  if (pathname === "/recorded") return Response.json(provider.requestsOf(searchParams.get("of") ?? ""));
  return await provider.fetch(request);
});
