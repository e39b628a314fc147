import { assertEquals, assertNotStrictEquals, assertStrictEquals } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { Planner, profileNamed } from "@tare/planner";
import { GatewaySessions, type GatewaySessionsOptions } from "./sessions.ts";

function newSessions(options: Partial<GatewaySessionsOptions> = {}) {
  let begun = 0;
  const sessions = new GatewaySessions({
    planner: ({ archive }, state) =>
      new Planner({ profile: profileNamed("none"), countTokens: estimateTokens, archive }, state),
    control: 0,
    begun: () => begun++,
    ...options,
  });
  const find = (texts: string, more: { readonly name?: string; readonly scope?: string } = {}) => {
    const keys = [...texts];
    const messages = keys.map((key): Message => ({ role: key === "S" ? "system" : "user", content: key }));
    return sessions.find({ scope: "s", keys, messages, ...more });
  };
  return { sessions, find, begun: () => begun };
}

const elide = (index: number) => ({ type: "elide", index, toolCallId: "c", ref: "r", text: "" } as const);

Deno.test("GatewaySessions follows a history, its retries and its forks, which take the edits that hold for them", () => {
  const { find, begun } = newSessions();
  const session = find("Sab");
  session.edits = [elide(1), elide(3)];
  assertStrictEquals(find("Sabcd"), session);
  assertStrictEquals(find("Sabcd"), session);
  const fork = find("Sabx");
  assertNotStrictEquals(fork, session);
  assertEquals([fork.edits, session.edits.length, fork.archive === session.archive], [[elide(1)], 2, true]);
  assertStrictEquals(find("Sabcde"), session);
  assertNotStrictEquals(find("Sq"), session);
  assertEquals(begun(), 2);
});

Deno.test("GatewaySessions goes by names where clients give them, also when they roll back", () => {
  const { find, begun } = newSessions();
  const session = find("ab", { name: "n" });
  session.edits = [elide(0), elide(1)];
  assertStrictEquals(find("axy", { name: "n" }), session);
  assertEquals(session.edits, [elide(0)]);
  assertStrictEquals(find("a", { name: "n" }), session);
  assertStrictEquals(find("ab", { name: "n" }), session);
  assertNotStrictEquals(find("ab", { name: "n", scope: "other" }), session);
  assertNotStrictEquals(find("ab"), session);
  assertEquals(begun(), 3);
});

Deno.test("GatewaySessions leaves the same share of sessions as it is, always", () => {
  const names = Array.from({ length: 200 }, (_, at) => `n${at}`);
  const controlled = () => {
    const { find } = newSessions({ control: 0.25 });
    return names.filter((name) => find("ab", { name }).control);
  };
  const first = controlled();
  assertEquals(controlled(), first);
  assertEquals(first.length > 30 && first.length < 70, true);
});

Deno.test("GatewaySessions forgets the sessions that were used longest ago", async () => {
  const { sessions, find } = newSessions({ maxSessions: 2 });
  const a = find("a");
  const b = find("b");
  find("a");
  find("c");
  assertStrictEquals(find("a"), a);
  assertNotStrictEquals(find("b"), b);
  assertEquals(sessions.size, 2);
  const small = newSessions({ maxArchivedChars: 10 });
  const large = small.find("a");
  await large.archive.put("x".repeat(11));
  small.find("b");
  assertNotStrictEquals(small.find("a"), large);
  const few = newSessions({ maxMessages: 3 });
  const first = few.find("abc");
  few.find("d");
  assertNotStrictEquals(few.find("abc"), first);
});
