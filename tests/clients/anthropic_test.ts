import { profileNamed } from "@tare/planner";
import { compare } from "../gateway/compare.ts";
import { playMessages, streamMessages } from "./anthropic_clients.ts";

const ANTHROPIC = { profile: profileNamed("anthropic-5m") };

Deno.test("anthropic: messages.create() costs less through the gateway and answers the same", async () => {
  await compare(playMessages("system and end"), ANTHROPIC);
});

Deno.test("anthropic: messages.stream() costs less through the gateway and answers the same", async () => {
  await compare(streamMessages("system and end"), ANTHROPIC);
});
