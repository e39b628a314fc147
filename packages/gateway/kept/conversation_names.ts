import { createHash } from "node:crypto";
import { countInstructions } from "../sessions/history.ts";
import { instructionKey } from "../sessions/instruction_keys.ts";
import type { GatewaySession, Recognised } from "../sessions/session.ts";

/** So far from a history's end is looked for where it stood when it was saved: a turn may add a call and a result for each of many tools. */
const REACH = 64;

/** So many ends of a session's history are among its names: it may go back to where it stood a few turns ago. */
const ENDS = 4;

/** Stands for the first item of a history that has none. */
const NOTHING = "";

/** Names under which the conversation of a request may be found, the surest first. */
export interface SoughtNames {
  /** Whatever has one of these is meant. */
  readonly own: readonly string[];
  /** What has one of these may be meant: it ends with the same, or begins with it. */
  readonly alike: readonly string[];
}

/** The names under which the conversation of a request may be found. `follows` is the response that it goes on from. */
export function soughtNames(
  recognised: Pick<Recognised, "client" | "scope" | "name" | "isKeyed" | "items" | "hasTools">,
  { follows }: { readonly follows: string | undefined },
): SoughtNames {
  const { client, scope, name, items, isKeyed, hasTools } = recognised;
  const heads = countInstructions(items);
  const keys = items.map(({ key }, at) => at < heads ? instructionKey(scope, key) : key);
  const firsts = [keys[heads] ?? NOTHING, NOTHING];
  return {
    own: [
      ...(follows === undefined ? [] : [nameOf("response", client ?? scope, follows)]),
      ...(name === undefined ? [] : [nameOf("name", scope, name)]),
      ...wholes(keys, { heads, reach: REACH }).map((whole) => nameOf("whole", scope, whole)),
    ],
    alike: [
      ...endsOf(keys, { heads, reach: REACH }).map((end) => nameOf("end", client ?? scope, end)),
      // One that has nothing but instructions yet may go on in any way.
      ...new Set(firsts.map((first) => nameOf("first", scope, first))),
      nameOf("summary", scope),
      // A request for a title or the like quotes the conversation that it is about.
      ...(isKeyed || !hasTools ? [nameOf("scope", scope)] : []),
    ],
  };
}

/** The names of a session, whose history has these keys, and of the ends that it had, the newest first. */
export function namesOf(
  session: GatewaySession,
  keys: readonly string[],
): { readonly names: readonly string[]; readonly ends: readonly string[] } {
  const { kept, facts: { client, scope, name, heads, summary, responses } } = session;
  const first = keys[heads] ?? NOTHING;
  const newest = [
    ...wholes(keys, { heads, reach: 1 }).map((whole) => nameOf("whole", scope, whole)),
    ...endsOf(keys, { heads, reach: 1 }).map((end) => nameOf("end", client ?? scope, end)),
  ];
  const ends = [...newest, ...kept.ends.filter((one) => !newest.includes(one))].slice(0, 2 * ENDS);
  return {
    ends,
    names: [
      ...ends,
      ...responses.map(({ id }) => nameOf("response", client ?? scope, id)),
      ...(name === undefined ? [] : [nameOf("name", scope, name)]),
      nameOf("first", scope, first),
      ...(summary ? [nameOf("summary", scope)] : []),
      nameOf("scope", scope),
    ],
  };
}

/** How a history is told from others: as it is, and as it was when it was shorter. */
interface Reach {
  /** How many instructions it begins with; there is nothing to tell before what follows them. */
  readonly heads: number;
  /** So many of the newest of its states. */
  readonly reach: number;
}

/** By all that was said, instructions too; the newest state first. */
function wholes(keys: readonly string[], { heads, reach }: Reach): readonly string[] {
  const from = Math.max(heads, keys.length - reach);
  const hash = createHash("sha256").update(keys.slice(0, from).map(line).join(""));
  return keys.slice(from).map((key) => hash.update(line(key)).copy().digest("base64url")).reverse();
}

function line(key: string): string {
  return `${key}\n`;
}

/** By its last two items, whatever the instructions; the newest state first. */
function endsOf(keys: readonly string[], { heads, reach }: Reach): readonly string[] {
  const ends: string[] = [];
  for (let length = keys.length; length > heads && ends.length < reach; length--) {
    ends.push(keys.slice(Math.max(heads, length - 2), length).join(" "));
  }
  return ends;
}

/** What stands in the store says nothing of a client, and nobody who knows it can guess another. */
function nameOf(...parts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url").slice(0, 22);
}
