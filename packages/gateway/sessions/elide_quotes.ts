import { contentText } from "@tare/messages";
import { placeholderRefs } from "@tare/prune";
import type { GatewaySession } from "./session.ts";

/** The shortest quote that is looked for, in UTF-16 code units of JSON: clients may cut what they quote. */
const LEAST_CHARS = 400;

/**
 * A request that quotes a conversation, as one for a summary may, with what left the view that the model had last given
 * way to the line that stands for it there. Nothing if it quotes none of that.
 */
export async function elideQuotes(
  body: Uint8Array<ArrayBuffer>,
  session: Pick<GatewaySession, "shown" | "archive">,
): Promise<Uint8Array<ArrayBuffer> | undefined> {
  const before = new TextDecoder().decode(body);
  let text = before;
  for (const [original, line] of (await goneOf(session)).sort(([a], [b]) => b.length - a.length)) {
    text = withoutQuotes(text, jsonOf(original), jsonOf(line));
  }
  return text === before ? undefined : new TextEncoder().encode(text);
}

/** A text in which a line stands for each quote of an original, from its beginning as far as it goes. */
function withoutQuotes(text: string, original: string, line: string): string {
  const head = original.slice(0, LEAST_CHARS);
  const pieces: string[] = [];
  let from = 0;
  for (let at = text.indexOf(head); at >= 0; at = text.indexOf(head, from)) {
    let length = head.length;
    while (length < original.length && text[at + length] === original[length]) length++;
    // An escape that is cut in two would be none.
    while (/\\(?:u\w{0,3})?$/.test(original.slice(Math.max(0, length - 5), length))) length--;
    pieces.push(text.slice(from, at), line);
    from = at + length;
  }
  return pieces.join("") + text.slice(from);
}

/** Texts of results that left the view, each with the line that stands for it. */
async function goneOf(
  { shown, archive }: Pick<GatewaySession, "shown" | "archive">,
): Promise<(readonly [original: string, line: string])[]> {
  const gone: [string, string][] = [];
  for (const message of shown) {
    // Of what doesn't stand for anything, only the hash may be known.
    if (typeof message === "number") continue;
    const line = contentText(message.content);
    for (const ref of placeholderRefs(line)) {
      const archived = await archive.get(ref);
      if (archived === undefined) continue;
      const originals = message.role === "tool" ? [archived] : resultsIn(archived);
      gone.push(...originals.map((text): [string, string] => [text.trim(), line]));
    }
  }
  return gone.filter(([original]) => original.length >= LEAST_CHARS);
}

/** The results among archived messages. */
function resultsIn(archived: string): string[] {
  try {
    return archived.split("\n").map((line) => JSON.parse(line))
      .flatMap((message) => message?.role === "tool" ? [contentText(message.content)] : []);
  } catch {
    // A text that isn't of messages: a user may quote such a line.
    return [];
  }
}

/** A text as it stands in JSON. */
function jsonOf(text: string): string {
  return JSON.stringify(text).slice(1, -1);
}
