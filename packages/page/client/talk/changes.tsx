import type { FileChange } from "@tare/messages";
import type { Told } from "@tare/server/client";
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { api, RefusedError } from "../api/api.ts";
import { count, counted, plain } from "../parts/format.ts";
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

const KINDS: Readonly<Record<string, string>> = { "+": "comes", "-": "goes", "@": "where" };

/** What a call changes in a file, line by line: what comes begins with `+`, what goes with `-`. */
export function Diff({ change }: { readonly change: FileChange }): JSX.Element {
  const { path, added, removed, diff, omitted } = change;
  const lines = useMemo(() => diff === "" ? [] : diff.split("\n"), [diff]);
  return (
    <div class="diff">
      <p>
        <bdi>{plain(path)}</bdi>:{" "}
        {lines.length === 0 ? "nothing changes" : `${counted(added, "line")} more, ${count(removed)} less`}
      </p>
      {lines.length > 0 && (
        <pre tabIndex={0} role="group" aria-label={`Changes of ${path}`}>
          {lines.map((line, at) => <span key={at} class={KINDS[line.charAt(0)]}>{`${plain(line)}\n`}</span>)}
        </pre>
      )}
      {omitted !== undefined && <p>and {count(omitted)} lines more, or longer than shown</p>}
    </div>
  );
}
