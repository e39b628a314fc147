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
    let node = this.#roots.get(scope) ?? newNode(scope);
    for (const key of keys) {
      const next: ChainNode | undefined = node.children.get(key);
      if (!next) break;
      node = next;
    }
    return node;
  }

  /**
   * Marks a history as the session's, from `node` on with these further keys and back to its root; gives its end. What
   * another session has is taken from it only if it gives way. Default: it does.
   */
  claim(
    node: ChainNode,
    keys: readonly string[],
    sessionId: string,
    givesWay: (sessionId: string) => boolean = () => true,
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
}

/** The messages that lead to a node, it included, from the first. */
export function chainTo(tip: ChainNode): readonly ChainNode[] {
  const nodes: ChainNode[] = [];
  for (let at = tip; at.parent; at = at.parent) nodes.push(at);
  return nodes.reverse();
}

/** How many items a history has in common with a session's, from its start; `heads` of them may be others. */
export function sharedLength(
  { tip, heads: own }: { readonly tip: ChainNode; readonly heads: number },
  keys: readonly string[],
  heads?: number,
): number {
  if (heads !== undefined && heads !== own) return 0;
  const from = heads ?? 0;
  const nodes = chainTo(tip);
  let at = from;
  while (at < keys.length && nodes[at]?.key === keys[at]) at++;
  return at > from ? at : 0;
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
