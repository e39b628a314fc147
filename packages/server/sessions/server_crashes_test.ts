import { assertEquals } from "@std/assert";
import { contentText, type FunctionToolCall, type Message, type Model, type Tool } from "@tare/messages";
import { sharedMemory } from "../../../tests/shared_memory.ts";
import { type Days, type Overview, usageTotals } from "@tare/session/internal/report";
import type { HttpAgent } from "@tare/server";
import fc, { cases } from "../../../tests/cases.ts";
import { agent, call, events, newSession, request, type SeenEvent } from "../fixture_test.ts";
import { unpaired } from "../script_fixture_test.ts";

type Step =
  | { readonly do: "start" | "steer" | "continue" | "cancel" | "show" | "follow"; readonly on: number }
  | { readonly do: "pause" | "wake" | "kill" | "close" | "leave"; readonly on: number }
  | { readonly do: "pass" };

const step: fc.Arbitrary<Step & { readonly ticks: number }> = fc.record({
  do: fc.constantFrom(
    ...(["start", "start", "start", "steer", "steer", "continue", "cancel", "show", "follow"] as const),
    ...(["pause", "wake", "kill", "close", "leave", "pass"] as const),
  ),
  on: fc.nat(2),
  ticks: fc.oneof(fc.nat(12), fc.nat(120)),
}) as fc.Arbitrary<Step & { readonly ticks: number }>;

async function ticks(count: number): Promise<void> {
  for (let tick = 0; tick < count; tick++) await Promise.resolve();
}

interface Server {
  readonly handler: HttpAgent;
  readonly opening: ReturnType<ReturnType<typeof sharedMemory>["open"]>;
  isPaused: boolean;
  isClosing: boolean;
}

/** Returns the events of a stream; a server that was closed meanwhile may end it with an error. */
async function eventsOf(response: Response, server: Server): Promise<SeenEvent[]> {
  const seen = await events(response);
  return server.isClosing ? seen.filter(({ id }) => !Number.isNaN(id)) : seen;
}

function cluster() {
  const memory = sharedMemory();
  const ran: string[] = [];
  const errors: unknown[] = [];
  let calls = 0;
  const model: Model = async function* ({ messages, signal }) {
    await ticks(20);
    signal.throwIfAborted();
    const made: FunctionToolCall = {
      id: `call ${calls++}`,
      type: "function",
      function: { name: "act", arguments: "{}" },
    };
    const isAnswer = messages.at(-1)?.role === "tool";
    yield { type: "text_delta", text: "a" };
    await ticks(5);
    yield {
      type: "completed",
      message: { role: "assistant", content: "a", ...(!isAnswer && { tool_calls: [made] }) },
      finishReason: isAnswer ? "stop" : "tool_calls",
      usage: { promptTokens: 10, cachedTokens: 5, outputTokens: 2 },
    };
  };
  const act: Tool = {
    definition: { type: "function", function: { name: "act", parameters: { type: "object" } } },
    async run(_args, { callId = "" }) {
      ran.push(callId);
      await ticks(10);
      return "acted";
    },
  };
  const open = (): Server => {
    const opening = memory.open();
    const handler = agent(model, {
      store: opening.store,
      tools: [act],
      onError: (error) => errors.push(error),
      // A killed server leaves no timer.
      clock: { now: () => 0, after: () => () => {} },
      heartbeat: { after: () => () => {} },
      approvals: { rules: [{ tool: "*", decision: "allow" }] as never },
      after: () => () => {},
    });
    return { handler, opening, isPaused: false, isClosing: false };
  };
  const servers = [open(), open(), open()];
  return { memory, servers, open, ran, errors };
}

Deno.test("several servers: acknowledged events are not lost, repeated or reordered when servers end or stall", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 3, maxLength: 25 }), async (steps) => {
      const { memory, servers, open, ran } = cluster();
      const path = await newSession(servers[0]!.handler);
      const id = path.split("/").at(-1)!;
      const acknowledged: string[] = [];
      const followed: SeenEvent[][] = [];
      const faults: unknown[] = [];
      let requestCount = 0;
      for (const { ticks: count, ...step } of steps) {
        if (step.do === "pass") {
          memory.pass(4_000);
        } else {
          const server = servers[step.on]!;
          const { handler, opening } = server;
          const turn = async (body: { readonly input?: string }) => {
            const response = await handler.fetch(request("POST", `${path}/turns`, body));
            if (server.isClosing) return;
            if (![200, 202, 409].includes(response.status)) faults.push(await response.text());
            if (response.status !== 409 && body.input) acknowledged.push(body.input);
            if (response.status === 200) followed.push(await eventsOf(response, server));
          };
          switch (step.do) {
            case "start":
              turn({ input: `input ${requestCount++}` });
              break;
            case "steer":
              turn({ input: `input ${requestCount++}`, steer: true } as never);
              break;
            case "continue":
              turn({ continue: true } as never);
              break;
            case "cancel":
              call(handler, "POST", `${path}/cancel`);
              break;
            case "show":
              call(handler, "GET", path).then(({ body, status }) => {
                if (status !== 200 && !server.isClosing) faults.push(body);
              });
              break;
            case "follow":
              handler.fetch(request("GET", `${path}/events`)).then(async (response) =>
                followed.push(await eventsOf(response, server))
              );
              break;
            case "pause":
              opening.pause();
              server.isPaused = true;
              break;
            case "wake":
              opening.wake();
              server.isPaused = false;
              break;
            case "kill":
              opening.kill();
              servers[step.on] = open();
              break;
            case "close":
            case "leave":
              if (server.isPaused) break;
              server.isClosing = true;
              servers[step.on] = open();
              handler.close(step.do === "leave" ? { leaveWithinMs: step.on } : {})
                .then(() => opening.store.close());
          }
        }
        await ticks(count);
      }
      for (const { opening } of servers) opening.wake();
      memory.pass(10_000);
      for (let round = 0; round < 50; round++) {
        await new Promise((resolve) => setTimeout(resolve));
        if (round % 10 === 0) memory.pass(1_000);
      }
      assertEquals(faults, []);
      const { store } = servers[0]!.opening;
      assertEquals((await store.shared.inspect(id)).holder, "none");
      const { days } = (await store.readState(id, "totals") ?? { days: {} }) as { readonly days: Days };
      const { body } = await call(servers[0]!.handler, "GET", "/tare/v1/overview");
      assertEquals((body as Overview).all, usageTotals.days(days), "totals equal the sessions' own");
      const stored = (await store.readEvents(id)).map(({ number, event }) => ({ id: number, event }));
      assertEquals(stored.map(({ id }) => id), stored.map((_, index) => index + 1));
      for (const seen of followed) {
        const from = seen[0]?.id ?? 1;
        assertEquals(seen, stored.slice(from - 1, from - 1 + seen.length) as never);
      }
      const shownBodies = await Promise.all(servers.map(({ handler }) => call(handler, "GET", path)));
      const [first, ...others] = shownBodies.map(({ body }) =>
        body as { messages: Message[]; status: string }
      );
      for (const other of others) assertEquals(other, first);
      assertEquals([first!.status, unpaired(first!.messages)], ["idle", []]);
      const inputs = first!.messages.filter(({ role }) => role === "user").map(({ content }) =>
        contentText(content)
      );
      assertEquals(new Set(inputs).size, inputs.length, "no text is repeated");
      assertEquals(acknowledged.filter((input) => !inputs.includes(input)), [], "nothing is lost");
      assertEquals(new Set(ran).size, ran.length, "no call runs twice");
      const starts = stored.map(({ event }) => event.type).filter((type) =>
        type === "turn_start" || type === "turn_end"
      );
      assertEquals(
        starts,
        starts.map((_, index) => index % 2 === 0 ? "turn_start" : "turn_end"),
      );
    }),
    { numRuns: cases(25) },
  );
});
