import { assert, assertEquals } from "@std/assert";
import { scripted } from "@tare/simulator";
import { compare, play } from "../../gateway/compare.ts";
import { startGateway } from "../../gateway/gateway.ts";
import { SCRIPT } from "../../gateway/long_session.ts";
import * as players from "./openai_clients.ts";
import { costOf, startUpstream } from "../../gateway/upstream.ts";

Deno.test("openai: chat.completions.create() costs less through the gateway and answers the same", async () => {
  await compare(players.playChat);
});

Deno.test("openai: chat.completions.stream() costs less through the gateway and answers the same", async () => {
  await compare(players.streamChat);
});

Deno.test("openai: chat.completions.runTools() costs less through the gateway and answers the same", async () => {
  await compare(players.runTools);
});

Deno.test("openai: responses.create() costs less through the gateway and answers the same", async () => {
  await compare(players.playResponses);
});

Deno.test("openai: responses.stream() costs less through the gateway and answers the same", async () => {
  await compare(players.streamResponses);
});

Deno.test("openai: previous_response_id answers the same, at the cost of the recall tool at most", async () => {
  await using direct = await startUpstream(scripted(SCRIPT));
  const alone = await play(direct.baseURL, players.continueResponses);
  await using through = await startUpstream(scripted(SCRIPT));
  await using gateway = await startGateway(through);
  assertEquals(await play(gateway.baseURL, players.continueResponses), alone);
  assertEquals(gateway.errors, []);
  // The upstream stores the history itself: nothing can be evicted.
  assert(costOf(through) / costOf(direct) < 1.01);
});
