export type Place =
  | { readonly view: "new" }
  | { readonly view: "overview" }
  | { readonly view: "talk"; readonly id: string }
  | { readonly view: "calls"; readonly id: string; readonly kind: "session" | "gateway" }
  | {
    readonly view: "prompt";
    readonly id: string;
    readonly kind: "session" | "gateway";
    /** Id of the initially selected block. Default: the first evicted one. */
    readonly block?: string | undefined;
  };

export function placeOf(hash: string): Place {
  const [kind, id = "", view, block] = hash.replace(/^#\//, "").split("/").map(decode);
  if (kind === "overview") return { view: "overview" };
  if ((kind !== "session" && kind !== "gateway") || id === "") return { view: "new" };
  if (view === "calls") return { view, kind, id };
  if (view === "prompt") return { view, kind, id, block };
  return kind === "session" ? { view: "talk", id } : { view: "calls", kind, id };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

export function addressOf(place: Exclude<Place, { view: "new" | "overview" }>): string {
  if (place.view === "talk") return `#/session/${encodeURIComponent(place.id)}`;
  const block = place.view === "prompt" && place.block !== undefined
    ? `/${encodeURIComponent(place.block)}`
    : "";
  return `#/${place.kind}/${encodeURIComponent(place.id)}/${place.view}${block}`;
}
