import type { FileChange } from "@tare/messages";
import type { JSX } from "preact";
import { useMemo } from "preact/hooks";
import { count, counted, plain } from "./format.ts";

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
