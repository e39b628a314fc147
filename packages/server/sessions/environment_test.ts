import { assertEquals } from "@std/assert";
import type { AssistantMessage, Model, ModelRequest } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import type { ToolSource } from "@tare/server";
import type { EnvironmentDescription } from "@tare/server/internal";
import { agent, call, echo, events, newSession, request, turn } from "../fixture_test.ts";
import { recordedStore } from "./store_fixture_test.ts";
import { answerCall } from "../approvals/fixture_test.ts";

function versions(): { description: EnvironmentDescription; now: number } {
  const place = {
    now: 1,
    description: {
      describe: () => Promise.resolve(`Here it is version ${place.now}.`),
      changes(reported: readonly string[]) {
        const isReported = reported[0]?.includes("Here it is version") ?? false;
        const isNew = isReported && !reported.at(-1)!.includes(`version ${place.now}.`);
        return Promise.resolve(isNew ? `Now it is version ${place.now}.` : undefined);
      },
    },
  };
  return place;
}

function recorded(replies: readonly Partial<AssistantMessage>[]): { model: Model; requests: ModelRequest[] } {
  const requests: ModelRequest[] = [];
  const model: Model = async function* (request) {
    const message: AssistantMessage = { role: "assistant", content: "", ...replies[requests.length] };
    requests.push(request);
    yield { type: "completed", message, finishReason: message.tool_calls ? "tool_calls" : "stop" };
  };
  return { model, requests };
}

function calling(name: string, args: unknown, id: string): Partial<AssistantMessage> {
  return { tool_calls: [{ id, type: "function", function: { name, arguments: JSON.stringify(args) } }] };
}

const contentsOf = ({ messages }: ModelRequest) => messages.map(({ content }) => content);

Deno.test("environment: its description follows the server's own instructions, and its changes precede the input", async () => {
  const place = versions();
  const { model, requests } = recorded([{ content: "a" }, { content: "b" }, { content: "c" }]);
  const handler = agent(model, { place: place.description });
  const session = await newSession(handler);
  await turn(handler, session, "1");
  place.now = 2;
  await turn(handler, session, "2");
  await turn(handler, session, "3");
  const first = "Be brief.\n\nHere it is version 1.";
  assertEquals(requests.map(contentsOf), [
    [first, "1"],
    [first, "1", "a", "Now it is version 2.", "2"],
    [first, "1", "a", "Now it is version 2.", "2", "b", "3"],
  ]);
  const { body } = await call(handler, "GET", session);
  assertEquals((body as { instructions: string }).instructions, "Be brief.");
});

Deno.test("environment: a session with its own instructions gets no description", async () => {
  const place = versions();
  const { model, requests } = recorded([{ content: "a" }, { content: "b" }]);
  const handler = agent(model, { place: place.description });
  for (const instructions of ["", "Be kind."]) {
    const session = await newSession(handler, { instructions });
    place.now++;
    await turn(handler, session, "1");
  }
  assertEquals(requests.map(contentsOf), [["1"], ["Be kind.", "1"]]);
});

Deno.test("environment: a change is described once, whichever write the server ends after", async () => {
  const place = versions();
  const store = recordedStore();
  const options = { place: place.description };
  const handler = agent(recorded([{ content: "One." }, { content: "Two." }]).model, { ...options, store });
  const session = await newSession(handler);
  await turn(handler, session, "One?");
  place.now = 2;
  await turn(handler, session, "Two?");
  for (const version of [2, 3]) {
    place.now = version;
    for (let writes = 1; writes <= store.writes; writes++) {
      const { model, requests } = recorded(["Three.", "Four.", "Five."].map((content) => ({ content })));
      const copy = await store.upTo(writes);
      const restarted = agent(model, { ...options, store: copy });
      await events(await restarted.fetch(request("GET", `${session}/events`)));
      await turn(restarted, session, "Three?");
      await turn(agent(model, { ...options, store: copy }), session, "Four?");
      for (const incoming of requests) {
        const notice = contentsOf(incoming).filter((content) =>
          String(content).startsWith("Now it is version")
        );
        assertEquals(notice.at(-1), `Now it is version ${version}.`);
        assertEquals(new Set(notice).size, notice.length, `${writes}`);
      }
      assertPrefixes(requests);
    }
  }
});

Deno.test("environment: tools and changes are described together, and more if the turn continues after a restart", async () => {
  const place = versions();
  const store = recordedStore();
  const many = Array.from({ length: 40 }, (_, at) => ({
    ...echo,
    mayDefer: true,
    definition: {
      type: "function" as const,
      function: { name: `make__${at}`, description: "It lists details that callers ignore. ".repeat(30) },
    },
  }));
  const toolSource: ToolSource = {
    names: ["make"],
    known: () => many,
    take: () => Promise.resolve({ tools: many, warnings: [] }),
  };
  const options = { place: place.description, toolSource };
  const first = recorded([{ content: "a" }]);
  const handler = agent(first.model, { ...options, store });
  const session = await newSession(handler);
  place.now = 2;
  await turn(handler, session, "1");
  const [, list, notice, input] = contentsOf(first.requests[0]!);
  assertEquals([notice, input], ["Now it is version 2.", "1"]);
  place.now = 3;
  const seen = new Set<string>();
  for (let writes = 1; writes <= store.writes; writes++) {
    const { model, requests } = recorded([{ content: "b" }, { content: "c" }]);
    const copy = await store.upTo(writes);
    await events(await agent(model, { ...options, store: copy }).fetch(request("GET", `${session}/events`)));
    await turn(agent(model, { ...options, store: copy }), session, "2");
    assertPrefixes(requests);
    seen.add(JSON.stringify(contentsOf(requests[0]!).slice(1)));
  }
  const now = "Now it is version 3.";
  assertEquals([...seen], [
    ...[["2"], ["1"]].map((input) => JSON.stringify([list, now, ...input])),
    JSON.stringify([list, notice, now, "1"]),
    JSON.stringify([list, notice, "1", "a", now, "2"]),
  ]);
});

Deno.test("environment: nothing is described between calls and results, but before the next turn", async () => {
  const place = versions();
  const { model, requests } = recorded([
    calling("echo", { text: "x" }, "a"),
    { content: "b" },
    { content: "c" },
  ]);
  const handler = agent(model, { place: place.description, approvals: {} });
  const session = await newSession(handler);
  await turn(handler, session, "1");
  place.now = 2;
  const { lastEvent } = (await call(handler, "GET", session)).body as { lastEvent: number };
  await answerCall(handler, session, { callId: "a", decision: "allow" });
  await events(await handler.fetch(request("GET", `${session}/events?after=${lastEvent}`)));
  await turn(handler, session, "2");
  const first = "Be brief.\n\nHere it is version 1.";
  assertEquals(requests.map(contentsOf), [
    [first, "1"],
    [first, "1", "", "x"],
    [first, "1", "", "x", "b", "Now it is version 2.", "2"],
  ]);
});

Deno.test("environment: a subagent begins with its parent's description", async () => {
  const place = versions();
  const { model, requests } = recorded([
    calling("delegate", { task: "Look." }, "a"),
    { content: "Seen." },
    { content: "Done." },
  ]);
  const handler = agent(model, {
    place: place.description,
    delegates: true,
    profile: profileNamed("openai"),
  });
  await turn(handler, await newSession(handler), "Have it looked at.");
  const [first, subagent] = requests;
  assertEquals(subagent!.messages.slice(0, first!.messages.length), first!.messages);
  assertEquals(JSON.stringify(subagent!.tools), JSON.stringify(first!.tools));
});

function assertPrefixes(requests: readonly ModelRequest[]): void {
  for (const [at, { messages }] of requests.slice(1).entries()) {
    const before = requests[at]!;
    assertEquals(messages.slice(0, before.messages.length), before.messages, `request ${at + 2}`);
  }
}
