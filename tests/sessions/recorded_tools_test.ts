import { PROFILES } from "@tare/planner/internal";
import { needs, RECORDINGS } from "../needs.ts";
import { assertWorthwhile } from "../worthwhile_tools.ts";

const RECORDED = new URL("../../../shared/trajectories/github-mcp-server.json", import.meta.url);

Deno.test({
  ...needs(
    RECORDINGS,
    "many tools: a session with the 117 tools of an MCP server costs two thirds at most, for any provider",
  ),
  async fn() {
    const { tools } = JSON.parse(await Deno.readTextFile(RECORDED));
    for (const profile of Object.values(PROFILES)) await assertWorthwhile(tools, profile);
  },
});
