import { isThought, type WireItem } from "@tare/wire";

/** A message in the tree of all known histories. */
export interface ChainNode {
  /** The message before; nothing for a root. */
  readonly parent?: ChainNode;
  /** Names the message among those that follow the one before. */
  readonly key: string;
  /** How many messages lead here. */
  readonly depth: number;
  /** The messages that followed. */
  readonly children: Map<string, ChainNode>;
  /** The session that came by last. */
  sessionId: string | undefined;
  /** The message as it was sent first. Absent: that isn't known here. */
  item?: WireItem;
}

/** How a history goes along one that is known. */
export interface Along {
  /** How many of its items aren't compared: instructions, which may be others. */
  readonly from: number;
  /** The last node that both have. */
  readonly node: ChainNode;
  /** What both have behind these, in order, with where the history has it; absent of thoughts that it has left away. */
  readonly steps: readonly { readonly node: ChainNode; readonly at?: number }[];
  /** Where in the history begins what isn't known. */
  readonly rest: number;
}

/**
 * Histories that clients have sent, as a tree: those that begin alike share their beginning. The longest known
 * history that a new one starts with is found by walking down, message by message.
 */
export class ChainIndex {
  readonly #roots = new Map<string, ChainNode>();
  #size = 0;

  /** How many messages are known. */
  get size(): number {
    return this.#size;
  }

  /** The last node that these keys lead to, from the root of this scope. Nothing is kept of a root that nobody claims. */
  find(scope: string, keys: readonly string[]): ChainNode {
    let node = this.#rootOf(scope);
    for (const key of keys) {
      const next: ChainNode | undefined = node.children.get(key);
      if (!next) break;
      node = next;
    }
    return node;
  }

  /** The longest known history that one begins with, whatever thoughts it has left away. */
  follow(scope: string, keys: readonly string[]): Along {
    return { from: 0, ...goAlong(this.#rootOf(scope), keys, 0, ALL_WAYS) };
  }

  /**
   * Marks a history as the session's, from `node` on with these further keys and back to its root; gives its end. `items`
   * are all of the history, of which each is remembered where none is. What another session has is taken from it only if
   * it gives way. Default: it does.
   */
  claim(
    node: ChainNode,
    keys: readonly string[],
    sessionId: string,
    { items, givesWay = () => true }: {
      readonly items?: readonly WireItem[];
      readonly givesWay?: (sessionId: string) => boolean;
    } = {},
  ): ChainNode {
    let tip = node;
    for (const key of keys) {
      const next = newNode(key, tip);
      tip.children.set(key, next);
      this.#size++;
      tip = next;
    }
    for (let at: ChainNode | undefined = tip; at; at = at.parent) {
      if (at.sessionId === undefined || givesWay(at.sessionId)) at.sessionId = sessionId;
      if (!at.parent) this.#roots.set(at.key, at);
      const item = items?.[at.depth - 1];
      // What its bytes are part of is a whole request.
      if (item?.bytes && at.item?.key !== item.key) at.item = { ...item, bytes: item.bytes.slice() };
    }
    return tip;
  }

  /**
   * Forgets a session's history behind `until`, as far as no other history goes that way: what is shared with others is
   * theirs then. Default: all of it.
   */
  release(tip: ChainNode, sessionId: string, until?: ChainNode): void {
    for (let at: ChainNode | undefined = tip; at && at !== until; at = at.parent) {
      if (at.sessionId === sessionId) {
        at.sessionId = at.children.values().map((child) => child.sessionId).find((id) => id !== undefined);
      }
      if (at.children.size > 0 || at.sessionId !== undefined) continue;
      if (at.parent) {
        if (at.parent.children.delete(at.key)) this.#size--;
      } else this.#roots.delete(at.key);
    }
  }

  #rootOf(scope: string): ChainNode {
    return this.#roots.get(scope) ?? newNode(scope);
  }
}

/** The messages that lead to a node, it included, from the first. */
export function chainTo(tip: ChainNode): readonly ChainNode[] {
  const nodes: ChainNode[] = [];
  for (let at = tip; at.parent; at = at.parent) nodes.push(at);
  return nodes.reverse();
}

/** How many items a history has in common with a session's, from its start. */
export function sharedLength(tip: ChainNode, keys: readonly string[]): number {
  const nodes = chainTo(tip);
  let at = 0;
  while (at < keys.length && nodes[at]?.key === keys[at]) at++;
  return at;
}

/** How a history with so many instructions goes along a session's with others; nothing if it has more, or fewer. */
export function goesAlong(
  { tip, heads: own }: { readonly tip: ChainNode; readonly heads: number },
  keys: readonly string[],
  heads: number,
): Along | undefined {
  const nodes = chainTo(tip);
  const start = heads === 0 ? nodes[0]?.parent : nodes[heads - 1];
  if (heads !== own || !start) return undefined;
  const next = ({ depth }: ChainNode) => nodes.slice(depth, depth + 1);
  const along = goAlong(start, keys, heads, {
    to: (node, key) => next(node).find((one) => one.key === key),
    from: next,
  });
  return along.steps.length > 0 ? { from: heads, ...along } : undefined;
}

/** Where histories go on behind a message. */
interface Ways {
  /** The message of this key. */
  readonly to: (node: ChainNode, key: string) => ChainNode | undefined;
  readonly from: (node: ChainNode) => Iterable<ChainNode>;
}

const ALL_WAYS: Ways = {
  to: ({ children }, key) => children.get(key),
  from: ({ children }) => children.values(),
};

function goAlong(
  start: ChainNode,
  keys: readonly string[],
  first: number,
  ways: Ways,
): Omit<Along, "from"> {
  const steps: { readonly node: ChainNode; readonly at?: number }[] = [];
  let node = start;
  let rest = first;
  for (let at = first; at < keys.length; at++) {
    const key = keys[at]!;
    const direct = ways.to(node, key);
    const passed = direct ? [direct] : passThoughts(node, key, ways);
    const found = passed?.pop();
    if (!found) {
      // Thoughts that were left away when this was sent first; what follows tells.
      if (isThought(key)) continue;
      break;
    }
    steps.push(...passed!.map((thought) => ({ node: thought })), { node: found, at });
    node = found;
    rest = at + 1;
  }
  return { node, steps, rest };
}

/** The way to a message behind thoughts alone. */
function passThoughts(node: ChainNode, key: string, ways: Ways): ChainNode[] | undefined {
  for (const thought of ways.from(node)) {
    if (!isThought(thought.key)) continue;
    const found = ways.to(thought, key);
    const way = found ? [found] : passThoughts(thought, key, ways);
    if (way) return [thought, ...way];
  }
  return undefined;
}

/** The last node of a history that is also one of another's. */
export function lastShared(tip: ChainNode, other: ChainNode): ChainNode | undefined {
  const theirs = new Set<ChainNode>();
  for (let at: ChainNode | undefined = other; at; at = at.parent) theirs.add(at);
  let at: ChainNode | undefined = tip;
  while (at && !theirs.has(at)) at = at.parent;
  return at;
}

function newNode(key: string, parent?: ChainNode): ChainNode {
  const depth = parent ? parent.depth + 1 : 0;
  return { key, depth, children: new Map(), sessionId: undefined, ...(parent && { parent }) };
}
