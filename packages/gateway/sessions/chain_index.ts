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

  /** Marks a history as the session's, from `node` on with these further keys and back to its root; gives its end. */
  claim(node: ChainNode, keys: readonly string[], sessionId: string): ChainNode {
    let tip = node;
    for (const key of keys) {
      const next = newNode(key, tip);
      tip.children.set(key, next);
      this.#size++;
      tip = next;
    }
    for (let at: ChainNode | undefined = tip; at; at = at.parent) {
      at.sessionId = sessionId;
      if (!at.parent) this.#roots.set(at.key, at);
    }
    return tip;
  }

  /** Forgets a session's history behind `until`, as far as no other history goes that way. Default: all of it. */
  release(tip: ChainNode, sessionId: string, until?: ChainNode): void {
    for (let at: ChainNode | undefined = tip; at && at !== until; at = at.parent) {
      if (at.sessionId === sessionId) at.sessionId = undefined;
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

function newNode(key: string, parent?: ChainNode): ChainNode {
  const depth = parent ? parent.depth + 1 : 0;
  return { key, depth, children: new Map(), sessionId: undefined, ...(parent && { parent }) };
}
