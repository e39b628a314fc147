/**
 * Sends requests to the agent's session routes. Contains no tests.
 *
 * @module
 */
import type { agentHandler } from "@tare/server";

/** Sends a POST request to a path below `/tare/v1/sessions`, and returns the text of its response. */
export async function postSession(
  agent: Pick<ReturnType<typeof agentHandler>, "fetch">,
  path: string,
  body: object,
): Promise<string> {
  const request = new Request(`http://localhost/tare/v1/sessions${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return await (await agent.fetch(request)).text();
}
