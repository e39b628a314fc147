/**
 * Conversations in three protocols, and gateways that are restarted during them. Holds no tests.
 * @module
 */
import { assertEquals } from "@std/assert";
import { gateway, type GatewayOptions, type HttpGateway } from "@tare/gateway";
import { profileNamed } from "@tare/planner";
import type { Store } from "@tare/session";
import type { JsonRecord } from "@tare/wire";
import { type Json, longResult, SUMMARIZE } from "../agents_fixture_test.ts";
import { OPTIONS, post } from "../fixture_test.ts";
import type { Dialect, Reply } from "./dialects_fixture_test.ts";

export interface SentRequest {
  readonly path: string;
  readonly body: JsonRecord;
  readonly headers?: Record<string, string>;
  readonly reply: Exclude<Reply, { readonly recalls: string }>;
  /**
   * Whether the model recalls first: the first evicted text that it sees a placeholder of, or that was ever evicted.
   */
  readonly recalls?: "seen" | "ever";
  readonly pauseMs?: number;
  /** Bodies that the provider counts and caches instead of those that it receives. Default: none. */
  readonly countsAs?: readonly string[];
}

const upstreamFor = (name: string, profile: string): GatewayOptions["upstreams"][string] => ({
  baseURL: `http://${name}.example/v1`,
  profile: profileNamed(profile as "openai"),
  windowTokens: 100_000,
});

export interface Played {
  readonly reported: readonly string[];
  readonly sent: readonly string[];
  readonly got: readonly string[];
  /** The session of each request, its number of rewrites, and the number of bodies sent until then. */
  readonly places: readonly {
    readonly session: string | null;
    readonly epoch: string | null;
    readonly calls: number;
  }[];
}

/** Plays requests in order. `open` returns the gateway of each. */
export async function play(
  requests: readonly SentRequest[],
  dialect: Dialect,
  open: (
    at: number,
    options: GatewayOptions,
  ) => HttpGateway | Promise<HttpGateway>,
  more: Partial<GatewayOptions> = {},
): Promise<Played> {
  const sent: string[] = [];
  const got: string[] = [];
  const reported: string[] = [];
  const places: Played["places"][number][] = [];
  let nowMs = 1_000_000;
  let next: SentRequest | undefined;
  let recalls: SentRequest["recalls"];
  let ever: string | undefined;
  let before = "";
  const fetch = async (...args: Parameters<typeof globalThis.fetch>) => {
    const text = await new Request(...args).text();
    const counted = next!.countsAs?.[sent.length - (places.at(-1)?.calls ?? 0)] ?? text;
    sent.push(text);
    let shared = 0;
    while (shared < counted.length && counted[shared] === before[shared]) shared++;
    before = counted;
    const [, ref] = /\bref ([0-9a-f]{16})\]/.exec(text) ?? [];
    ever ??= ref;
    const wanted = recalls === "ever" ? ever : recalls && ref;
    const reply = wanted === undefined ? next!.reply : { recalls: wanted };
    recalls = undefined;
    return await dialect.answer(JSON.parse(counted), reply, Math.floor(shared / 4));
  };
  const options: GatewayOptions = {
    ...OPTIONS,
    upstreams: {
      chat: upstreamFor("chat", "openai"),
      responses: upstreamFor("responses", "openai"),
      messages: upstreamFor("messages", "anthropic-5m"),
    },
    now: () => nowMs,
    fetch: fetch as typeof globalThis.fetch,
    onError: (error) => void reported.push((error as Error).message),
    ...more,
  };
  for (const [at, one] of requests.entries()) {
    const opened = await open(at, options);
    nowMs += one.pauseMs ?? 10_000;
    next = one;
    recalls = one.recalls;
    const response = await opened.fetch(post(one.body, { ...one.headers }, one.path));
    got.push(await response!.text());
    const [session, epoch] = ["x-tare-session", "x-tare-epoch"].map((name) => response!.headers.get(name)!);
    places.push({ session: session!, epoch: epoch!, calls: sent.length });
  }
  return { sent, got, reported, places };
}

export function rulesAt(at: number): string {
  const rules = Array.from(
    { length: 40 },
    (_, line) => `Rule ${line}: keep what people said, whatever it is.`,
  );
  return [...rules, `Status of the repository: ${at}.`].join("\n");
}

export type Step = { readonly history: readonly Json[] } & Pick<SentRequest, "reply">;

/** Returns a task and its steps, request by request, and the history after them. */
export function turn(
  dialect: Dialect,
  history: readonly Json[],
  names: readonly string[],
): { readonly steps: readonly Step[]; readonly after: readonly Json[] } {
  const steps: Step[] = [];
  let now = history;
  for (const name of names) {
    steps.push({ history: now, reply: { step: name } });
    now = [...now, ...dialect.step(name, longResult(name))];
  }
  const reply = { text: `Done with ${names.join()}.`, id: `msg_${names[0]}` };
  return {
    steps: [...steps, { history: now, reply }],
    after: [...now, dialect.message("assistant", reply.text, reply.id)],
  };
}

export interface Manner {
  readonly name: string;
  readonly stream: boolean;
  readonly changes?: boolean;
  readonly fields?: Readonly<Record<string, unknown>>;
  readonly headers?: Record<string, string>;
}

export const MANNERS: readonly Manner[] = [
  { name: "streamed", stream: true },
  { name: "whole, with rules that change", stream: false, changes: true },
  { name: "streamed, by name", stream: true, headers: { "x-tare-session": "mine" } },
  {
    name: "streamed, under a key, with rules that change",
    stream: true,
    changes: true,
    fields: { prompt_cache_key: "k", metadata: { user_id: "k" } },
  },
];

const names = (of: string, count: number) => Array.from({ length: count }, (_, at) => `${of}${at}.ts`);

/** Returns a conversation with turns, recalls, a fork, a rollback and a summary. */
export function conversation(
  dialect: Dialect,
  { stream, changes = false, fields, headers = {} }: Manner,
): SentRequest[] {
  const requests: SentRequest[] = [];
  const ask = (
    { history, reply }: Step,
    { tools = true, ...more }: Partial<SentRequest> & { readonly tools?: boolean } = {},
  ) => {
    const body = dialect.body(history, { rules: rulesAt(changes ? requests.length : 0), tools });
    requests.push({ path: dialect.path, body: { ...body, stream, ...fields }, reply, headers, ...more });
  };
  const message = (text: string) => dialect.message("user", text, `msg_${text}`);
  const first = turn(
    dialect,
    dialect.opening("Find the constants in all files of the folder."),
    names("a", 8),
  );
  for (const step of first.steps) ask(step);
  const second = turn(dialect, [...first.after, message("Now sum them up.")], names("b", 13));
  const last = second.steps.length - 1;
  for (const [at, step] of second.steps.entries()) {
    ask(step, at === 2 || at === last ? { recalls: "seen" } : {});
  }
  const other = turn(dialect, [...first.after, message("Do something else with them.")], names("c", 3));
  for (const step of other.steps) ask(step, { recalls: "seen" });
  const stopped = message("Stop, and begin anew from here.");
  ask({ history: [...first.steps[3]!.history, stopped], reply: { text: "Well.", id: "msg_w" } });
  const third = turn(dialect, [...second.after, message("Now write them down.")], names("d", 3));
  for (const [at, step] of third.steps.entries()) ask(step, { pauseMs: at === 0 ? 3_600_000 : 5_000 });
  ask(third.steps.at(-1)!);
  ask(third.steps.at(-2)!, { recalls: "seen" });
  ask(third.steps.at(-1)!);
  // The client compacts and continues from the summary; evicted content can still be recalled.
  const summary = "This is what was said before: " + "a summary of the conversation so far. ".repeat(3);
  const summing = {
    history: [...third.after, message(SUMMARIZE)],
    reply: { text: summary, id: "msg_summary" },
  };
  ask(summing, { tools: false });
  const fourth = turn(dialect, [message(`What was: ${summary}`), message("Go on.")], names("e", 4));
  for (const step of fourth.steps) ask(step, { recalls: "ever" });
  return requests;
}

export function whole(requests: readonly SentRequest[], dialect: Dialect): Promise<Played> {
  let one: HttpGateway | undefined;
  return play(requests, dialect, (_, options) => one ??= gateway(options));
}

/** Plays it with gateways on one store. `gatewayAt` selects the gateway and whether it is restarted. */
export async function played(
  requests: readonly SentRequest[],
  dialect: Dialect,
  { store, gatewayAt }: {
    readonly store: (at: number) => Promise<Store> | Store;
    readonly gatewayAt: (at: number) => { readonly which?: number; readonly isRestarted?: boolean };
  },
): Promise<Played> {
  const open = new Map<number, HttpGateway>();
  const all = await play(requests, dialect, async (at, options: GatewayOptions) => {
    const { which = 0, isRestarted = false } = gatewayAt(at);
    const reopened = await store(at);
    const opened = isRestarted ? undefined : open.get(which);
    const now = opened ?? gateway({ ...options, store: reopened });
    open.set(which, now);
    return now;
  });
  await Promise.all(Array.from(open.values(), (one) => one.close()));
  return all;
}

export function assertSame(actual: Played, expected: Played): void {
  for (const [at, text] of expected.sent.entries()) assertEquals(actual.sent[at], text, `call ${at}`);
  assertEquals([actual.sent.length, actual.got, actual.reported], [
    expected.sent.length,
    expected.got,
    expected.reported,
  ]);
}
