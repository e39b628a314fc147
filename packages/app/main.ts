/**
 * The agent server's process. `deno task start` starts it by way of `start.ts`.
 *
 * @module
 */
import { runServer } from "./run_server.ts";

await runServer();
