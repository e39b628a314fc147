import xterm from "npm:@xterm/headless@^6.0.0";
import unicode from "npm:@xterm/addon-unicode11@^0.9.0";

/** Returns the rows that a terminal shows after an output, those that scrolled away included. */
export async function screenRows(
  output: string,
  { columns, convertEol = false }: { readonly columns: number; readonly convertEol?: boolean },
): Promise<readonly string[]> {
  const terminal = new xterm.Terminal({
    ...{ cols: columns, rows: 30, scrollback: 10_000, allowProposedApi: true, convertEol },
  });
  // deno-lint-ignore no-explicit-any
  terminal.loadAddon(new unicode.Unicode11Addon() as any);
  terminal.unicode.activeVersion = "11";
  await new Promise<void>((resolve) => terminal.write(output, resolve));
  const { active } = terminal.buffer;
  const rows = Array.from({ length: active.length }, (_, at) => {
    const line = active.getLine(at)!;
    // A row that the terminal had to break is marked.
    return (line.isWrapped ? "⏎" : "") + line.translateToString(true);
  });
  terminal.dispose();
  return rows.slice(0, rows.findLastIndex((row) => row !== "") + 1);
}
