/**
 * The agent server's process, started by `start.ts`.
 *
 * @module
 */
import { runServer } from "./run_server.ts";

await runServer();
