import { resolve } from "@std/path";
import { sandboxNetwork } from "@tare/tools/internal/network";
import { findSandbox } from "@tare/tools/sandbox";
import type { Settings } from "./settings/settings.ts";

/** Returns the configured sandbox, or the reason for its absence. Its proxy ends with this process. */
export async function serverSandbox(
  { sandbox, allowDomains, workspace, data, path, instructions, mcp, approvals, profile, database }: Settings,
  { home, temporary }: {
    readonly home: string | undefined;
    /** Folder for sockets. */
    readonly temporary: string;
  },
): ReturnType<typeof findSandbox> {
  if (sandbox === "off") return { why: "TARE_SANDBOX is off" };
  const files = (...paths: (string | undefined)[]) =>
    paths.flatMap((path) => path === undefined ? [] : [resolve(path)]);
  const hasNetwork = allowDomains.length > 0 && Deno.build.os === "linux";
  return await findSandbox({
    ...(hasNetwork && { network: await sandboxNetwork(allowDomains, temporary) }),
    ...{ workspace, path, home },
    hiddenFolders: [resolve(data)],
    hiddenFiles: files(mcp?.path, ...database?.files ?? []),
    readOnly: files(approvals?.path, profile?.path, instructions?.path),
    async tryOut(program, args) {
      const { success, stderr } = await new Deno.Command(program, { args: [...args], stdin: "null" })
        .output();
      return success ? undefined : new TextDecoder().decode(stderr);
    },
  });
}
