/** Shows a placeholder instead of a tool result. */
export interface ElideEdit {
  /** Which kind of edit it is. */
  readonly type: "elide";
  /** Position of the tool message in the append-only history. */
  readonly index: number;
  /** Archive reference of the original content. */
  readonly ref: string;
  /** What the model sees instead of the content. */
  readonly text: string;
}

/**
 * A small record that changes what the model sees of an append-only history. Edits are sticky: once applied they
 * stay until a later edit of the same place replaces them.
 */
export type Edit = ElideEdit;
