import { createHash } from "node:crypto";
import { countInstructions, endOf } from "../sessions/history.ts";
import type { Recognised } from "../sessions/recognised.ts";
import type { GatewaySession } from "../sessions/session.ts";

/** So far from a history's end is looked for where it stood when it was saved: a turn may add a call and a result for each of many tools. */
const REACH = 64;

/** So many ends of a session's history are among its names: it may go back to where it stood a few turns ago. */
const ENDS = 4;

/** Names under which a conversation may be found, and how surely it is the right one then: the least the most surely. */
export type SoughtNames = ReadonlyMap<string, number>;

/** From here on a name says little: others may well have it. */
export const COMMON = 1_000;

/** The ends that the history of a request's session may have had: those near its own, the nearest first. */
export function endsOf({ items }: Pick<Recognised, "items">): readonly string[] {
  const keys = items.slice(countInstructions(items)).map(({ key }) => key);
  const ends: string[] = [];
  for (let length = keys.length; length > 0 && ends.length < REACH; length--) {
    ends.push(endOf(keys.slice(Math.max(0, length - 2), length))!);
  }
  return ends;
}

/** The names under which the conversation of a request may be found. `follows` is the response that it goes on from. */
export function soughtNames(
  recognised: Pick<Recognised, "client" | "scope" | "name" | "isKeyed" | "items" | "hasTools">,
  { follows, ends }: { readonly follows: string | undefined; readonly ends: readonly string[] },
): SoughtNames {
  const { client, scope, name, items, isKeyed, hasTools } = recognised;
  const sought = new Map<string, number>();
  if (follows !== undefined) sought.set(nameOf("response", client ?? scope, follows), 0);
  if (name !== undefined) sought.set(nameOf("name", scope, name), 1);
  for (const [at, end] of ends.entries()) sought.set(nameOf("end", client ?? scope, end), 2 + at);
  const first = items[countInstructions(items)];
  if (first) sought.set(nameOf("first", scope, first.key), COMMON);
  sought.set(nameOf("summary", scope), COMMON);
  // A request for a title or the like quotes the conversation that it is about.
  if (isKeyed || !hasTools) sought.set(nameOf("scope", scope), COMMON);
  return sought;
}

/** The names of a session, whose history has these keys, and of the ends that it had, the newest first. */
export function namesOf(
  session: GatewaySession,
  keys: readonly string[],
): { readonly names: readonly string[]; readonly ends: readonly string[] } {
  const { client, scope, name, heads, summary, responses, kept } = session;
  const first = keys[heads];
  const end = endOf(keys.slice(Math.max(heads, keys.length - 2)));
  const newest = end === undefined ? [] : [nameOf("end", client ?? scope, end)];
  const ends = [...newest, ...kept.ends.filter((one) => !newest.includes(one))].slice(0, ENDS);
  return {
    ends,
    names: [
      ...ends,
      ...responses.map(({ id }) => nameOf("response", client ?? scope, id)),
      ...(name === undefined ? [] : [nameOf("name", scope, name)]),
      ...(first === undefined ? [] : [nameOf("first", scope, first)]),
      ...(summary ? [nameOf("summary", scope)] : []),
      nameOf("scope", scope),
    ],
  };
}

/** What stands in the store says nothing of a client, and nobody who knows it can guess another. */
function nameOf(...parts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url").slice(0, 22);
}
