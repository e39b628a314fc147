import { assertEquals, assertNotStrictEquals, assertStrictEquals } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { plannerSession, profileNamed } from "@tare/planner";
import type { WireItem } from "@tare/wire/internal";
import { SessionRegistry } from "@tare/session/internal";
import type { GatewaySession, Recognized } from "./session.ts";
import { GatewaySessions, type SessionsOptions } from "./sessions.ts";

function newSessions(options: Partial<SessionsOptions> = {}) {
  const sessions = new GatewaySessions({
    maxBytes: 1_000_000,
    now: () => 0,
    ...options,
  });
  const find = (texts: string, more: { readonly name?: string; readonly scope?: string } = {}) => {
    const items = Array.from(texts, (key): WireItem => {
      const role = { S: "system", b: "assistant" }[key] ?? "user";
      const message = { role, content: key } as Message;
      return { key, parts: [{ message }], bytes: new Uint8Array(key === "L" ? 10_000 : 1) };
    });
    const prompts: Recognized["prompts"] = ({ archive }) => {
      const state = { edits: [elide(1), elide(3)] };
      return plannerSession({ profile: profileNamed("none"), countTokens: estimateTokens, archive, state });
    };
    return sessions.sessionOf({
      scope: "s",
      items,
      basis: { model: "m" },
      countTokens: estimateTokens,
      prompts,
      ...more,
    });
  };
  const begun = async () => (await new SessionRegistry([sessions]).ledger()).planned.sessions;
  return { sessions, find, begun };
}

const elide = (index: number) => ({ type: "elide", index, toolCallId: "c", ref: "r", text: "" });
const edited = ({ session }: GatewaySession) =>
  (session.prompt.state as { edits: readonly { index: number }[] }).edits.map(({ index }) => index);

Deno.test("GatewaySessions continues a history with its retries and forks, which inherit valid edits", async () => {
  const { find, begun } = newSessions();
  const session = find("Sab");
  assertStrictEquals(find("Sabcd"), session);
  assertStrictEquals(find("Sabcd"), session);
  const fork = find("Sabx");
  assertNotStrictEquals(fork, session);
  assertEquals([edited(fork), edited(session)], [[1], [1, 3]]);
  assertStrictEquals(find("Sabcde"), session);
  assertNotStrictEquals(find("Sq"), session);
  assertEquals(await begun(), 2);
});

Deno.test("GatewaySessions begins a new conversation for an equal opening, without the other's state", async () => {
  const { find, begun } = newSessions();
  const session = find("Sab");
  const ref = await session.archive.put("before");
  const job = find("Sa");
  assertNotStrictEquals(job, session);
  assertEquals([await job.archive.get(ref), job.session.stored.parent, edited(job)], [undefined, undefined, [
    1,
    3,
  ]]);
  assertEquals(await begun(), 2);
  find("Sabc");
  const fork = find("Sabx");
  assertEquals([await fork.archive.get(ref), edited(fork)], ["before", [1]]);
});

Deno.test("GatewaySessions shares texts archived before a fork, and separates later ones", async () => {
  const { find } = newSessions();
  const session = find("Sabc");
  const before = await session.archive.put("before");
  const fork = find("Sabx");
  const after = await session.archive.put("after");
  const own = await fork.archive.put("own");
  const texts = ({ archive }: GatewaySession) =>
    Promise.all([before, after, own].map((ref) => archive.get(ref)));
  assertEquals(await texts(fork), ["before", undefined, "own"]);
  assertEquals(await texts(session), ["before", "after", undefined]);
});

Deno.test("GatewaySessions uses client names, also after a rollback", async () => {
  const { find, begun } = newSessions();
  const session = find("abcd", { name: "n" });
  assertEquals(edited(session), [1, 3]);
  assertStrictEquals(find("abxy", { name: "n" }), session);
  assertEquals(edited(session), [1]);
  assertStrictEquals(find("a", { name: "n" }), session);
  assertStrictEquals(find("ab", { name: "n" }), session);
  assertNotStrictEquals(find("ab", { name: "n", scope: "other" }), session);
  assertNotStrictEquals(find("ab"), session);
  assertEquals(await begun(), 3);
});

Deno.test("GatewaySessions selects a constant share of sessions as the holdout", () => {
  const names = Array.from({ length: 200 }, (_, at) => `n${at}`);
  const controlled = () => {
    const { find } = newSessions({ holdout: 0.25 });
    return names.filter((name) => find("ab", { name }).facts.holdout);
  };
  const first = controlled();
  assertEquals(controlled(), first);
  assertEquals(first.length > 30 && first.length < 70, true);
});

Deno.test("GatewaySessions evicts the least recently used sessions within its memory", () => {
  const { sessions, find } = newSessions({ maxBytes: 14_000 });
  const a = find("a");
  const b = find("b", { name: "n" });
  find("a");
  find("c");
  assertStrictEquals(find("a"), a);
  assertNotStrictEquals(find("b", { name: "n" }), b);
  assertEquals([sessions.held.size, sessions.held.get(a.id) === a, sessions.held.get(b.id)], [
    2,
    true,
    undefined,
  ]);
});

Deno.test("GatewaySessions weighs archived texts, hidden items and histories", async () => {
  const archiving = newSessions({ maxBytes: 20_000 });
  const large = archiving.find("a");
  archiving.find("b");
  await large.archive.put("x".repeat(10_000));
  archiving.sessions.weigh(large);
  assertEquals([archiving.sessions.held.size, archiving.sessions.held.get(large.id)], [1, large]);
  const hiding = newSessions({ maxBytes: 20_000 });
  const hidden = hiding.find("a");
  hiding.find("b");
  const items = [{ key: "", parts: [], bytes: new Uint8Array(3_000) }];
  hidden.hide([{ after: 1, part: 0, replaces: [], before: [""], thoughts: [], items }]);
  hiding.sessions.weigh(hidden);
  assertEquals(hiding.sessions.held.size, 1);
  const long = newSessions({ maxBytes: 20_000 });
  const first = long.find("a");
  long.find("abcdefghijklmnop".repeat(2));
  assertEquals([long.sessions.held.size, long.sessions.held.get(first.id)], [0, undefined]);
  const wide = newSessions({ maxBytes: 20_000 });
  wide.find("a");
  wide.find("L");
  assertEquals(wide.sessions.held.size, 1);
  // A session that was evicted while in use stays evicted.
  long.sessions.weigh(first);
  assertEquals(long.sessions.held.size, 0);
});
