// deno-lint-ignore-file no-console
import { printableText } from "../terminal/printable_text.ts";
import { type Change, differences } from "./wrapping.ts";

/** Prints a change and writes it after confirmation. Returns whether it was written. */
export function writeChange(change: Change, { yes }: { readonly yes: boolean }): boolean {
  const lines = differences(change);
  console.log(printableText([change.path, ...lines.map((line) => `  ${line}`)].join("\n")));
  if (change.remark) console.log(printableText(change.remark));
  if (!confirmed(yes, change.after === null ? "Remove it?" : "Write this?")) return false;
  change.write();
  return true;
}

/** Asks for confirmation unless `yes` is set. @throws {Error} without a terminal. */
export function confirmed(yes: boolean, question: string): boolean {
  if (!yes && !Deno.stdin.isTerminal()) {
    throw new Error("Cannot ask for confirmation: there is no terminal. Use --yes.");
  }
  return yes || confirm(question);
}
