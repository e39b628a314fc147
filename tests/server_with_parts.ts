/**
 * Runs the agent server with parts that no setting chooses: the first argument contains them as JSON, the
 * others are the server's own.
 *
 * @module
 */
import { runServer } from "../packages/app/run_server.ts";

const [parts = "{}", ...args] = Deno.args;
await runServer(JSON.parse(parts), args);
