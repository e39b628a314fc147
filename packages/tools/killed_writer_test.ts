// Program of half_written_test.ts: killed between writing and renaming a file.
import { editFileTool, writeFileTool } from "./files/write_file_tools.ts";

if (import.meta.main) {
  const [workspace = "", args = "", callId = "", hidden] = Deno.args;
  const given = JSON.parse(args);
  const tool = ("content" in given ? writeFileTool : editFileTool)(workspace, { hidden });
  await tool.run(given, {
    signal: new AbortController().signal,
    progress() {},
    callId,
    confirm: () => Deno.kill(Deno.pid, "SIGKILL"),
  });
}
