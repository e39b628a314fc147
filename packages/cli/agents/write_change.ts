// deno-lint-ignore-file no-console
import { shownText } from "../terminal/shown_text.ts";
import { type Change, differences } from "./wrapping.ts";

/** Shows a change, asks whether it is wanted unless somebody has said so, and writes it. Gives whether it did. */
export function writeChange(change: Change, { yes }: { readonly yes: boolean }): boolean {
  const lines = differences(change);
  console.log(shownText([change.path, ...lines.map((line) => `  ${line}`)].join("\n")));
  if (change.remark) console.log(shownText(change.remark));
  if (!confirmed(yes, change.after === null ? "Remove it?" : "Write this?")) return false;
  change.write();
  return true;
}

/** Asks whether something is wanted, unless somebody has said so. */
export function confirmed(yes: boolean, question: string): boolean {
  if (!yes && !Deno.stdin.isTerminal()) {
    throw new Error("Cannot ask whether to write this: there is no terminal. --yes says so.");
  }
  return yes || confirm(question);
}
