import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Told } from "@tare/server/client";
import { api, RefusedError } from "../api/api.ts";
import { counted } from "../parts/format.ts";
import { addressOf } from "../place.ts";
import { sentenceOf } from "./conversation.ts";

type Turn = Told<"GET /v1/sessions/{id}/changes">["turns"][number];

/** What is asked of the server: to put files back, with the conversation too, or to make the changes again. */
type Wish = "undo" | "back" | "redo";

/** What the newest turn has changed of files, while nothing runs, and the ways to put it back. */
export function Changes({ id }: { readonly id: string }): JSX.Element | null {
  const [turns, setTurns] = useState<readonly Turn[]>([]);
  const [refused, setRefused] = useState<
    { readonly wish: Wish; readonly why: string; readonly mayForce: boolean }
  >();
  const path = { id };
  const read = () =>
    api.json("GET /v1/sessions/{id}/changes", { path }).then(
      ({ turns }) => setTurns(turns),
      () => setTurns([]),
    );
  useEffect(() => void read(), []);
  const ask = async (wish: Wish, force = false) => {
    setRefused(undefined);
    try {
      if (wish === "redo") await api.json("POST /v1/sessions/{id}/redo", { path, body: { force } });
      else {
        const body = { force, conversation: wish === "back" };
        const { session } = await api.json("POST /v1/sessions/{id}/undo", { path, body });
        if (session) location.hash = addressOf({ view: "talk", id: session.id });
      }
    } catch (error) {
      const mayForce = error instanceof RefusedError && error.status === 409;
      setRefused({ wish, why: sentenceOf(error), mayForce });
    }
    await read();
  };
  const done = turns.findLast(({ isUndone }) => !isUndone);
  const isUndone = turns.at(-1)?.isUndone ?? false;
  const shown = isUndone ? turns.at(-1) : done;
  if (!shown) return null;
  return (
    <section class="changes" aria-label="Changed files">
      <details>
        <summary>
          {counted(shown.files.length, "file")} changed by a turn{isUndone && ", and put back"}
        </summary>
        <ul>
          {shown.files.map(({ path, change }) => (
            <li key={path}>
              {change} <bdi>{path}</bdi>
            </li>
          ))}
          {shown.notCovered.map((sentence) => (
            <li key={sentence}>
              Not covered: <bdi>{sentence}</bdi>
            </li>
          ))}
        </ul>
      </details>
      {done && <button type="button" class="quiet" onClick={() => ask("undo")}>Put back</button>}
      {done && (
        <button type="button" class="quiet" onClick={() => ask("back")}>
          Put back, and go on from before it
        </button>
      )}
      {isUndone && <button type="button" class="quiet" onClick={() => ask("redo")}>Make again</button>}
      {refused && (
        <p class="trouble" role="alert">
          <bdi>{refused.why}</bdi>
          {refused.mayForce && (
            <button type="button" onClick={() => ask(refused.wish, true)}>Do it all the same</button>
          )}
        </p>
      )}
    </section>
  );
}
