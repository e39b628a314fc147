import { fromFileUrl } from "@std/path";
import { percentile } from "./percentile.ts";
import { type Listening, startListening } from "./server_listening.ts";
import { startMain } from "./server_rest.ts";

/** From the start of a process to its first answer to `GET /health`, in milliseconds. */
export interface Start {
  readonly bestMs: number;
  readonly medianMs: number;
}

const RUNS = 5;

/** Measures the start of the start command, and of the process that it starts; Deno's cache is warm. */
export async function measureStart(
  flags: readonly string[],
): Promise<{ readonly start: Start; readonly main: Start }> {
  const folder = fromFileUrl(new URL("../../", import.meta.url));
  const { tasks } = JSON.parse(await Deno.readTextFile(`${folder}deno.json`));
  const command: string[] = tasks.start.command.split(" ").slice(2);
  const startCommand = [...command.slice(0, -1), `${folder}${command.at(-1)}`, "--port", "0", ...flags];
  return {
    start: await measure(() => startListening(startCommand)),
    main: await measure(() => startMain(flags)),
  };
}

async function measure(start: () => Promise<Listening>): Promise<Start> {
  const times: number[] = [];
  for (let run = 0; run <= RUNS; run++) {
    await using server = await start();
    await (await fetch(`${server.url}/health`)).text();
    // The first run only warms the cache.
    if (run > 0) times.push(server.elapsedMs());
  }
  return { bestMs: Math.min(...times), medianMs: percentile(times, 0.5) };
}
