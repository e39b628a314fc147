/**
 * Attacks by malicious commands of the agent or by a program that it uses. Contains no tests.
 *
 * @module
 */
import { join } from "@std/path";

export interface Target {
  readonly top: string;
  readonly port: number;
  readonly pids: readonly number[];
}

export const SECRET = "planted-secret-of-the-person";

const KEY_FILES = [
  ...[
    ".ssh/id_ed25519",
    ".aws/credentials",
    ".config/gh/hosts.yml",
    ".netrc",
    ".npmrc",
    ".docker/config.json",
  ],
  ...[
    ".kube/config",
    ".gnupg/private-keys-v1.d/a.key",
    ".git-credentials",
    ".local/share/keyrings/login.keyring",
  ],
];

export async function plant(top: string): Promise<void> {
  const write = async (path: string, text: string) => {
    await Deno.mkdir(join(top, path, ".."), { recursive: true });
    await Deno.writeTextFile(join(top, path), text);
  };
  for (const file of KEY_FILES) await write(`home/${file}`, SECRET);
  await write("home/.bashrc", "");
  await write("workspace/.git/HEAD", "ref: refs/heads/main\n");
  await write("workspace/.git/config", "[core]\n");
  await write("workspace/.git/hooks/post-checkout", "true\n");
  await write("workspace/settings/rules.json", "[]");
  await write("workspace/settings/mcp.json", JSON.stringify({ mcpServers: {}, of: SECRET }));
  await write("beside/project.txt", SECRET);
}

/**
 * Returns commands by attack. Each prints `won` on success and must succeed without a sandbox, so that its
 * failure in one counts.
 */
export function attacks({ top, port, pids }: Target): Readonly<Record<string, string>> {
  const secret = `grep -aq ${SECRET}`;
  const home = join(top, "home");
  const data = join(top, "data");
  return {
    "reads an environment in /proc": `cat /proc/[0-9]*/environ 2>/dev/null | ${secret} && echo won`,
    "sees the server's process": pids.map((pid) => `kill -0 ${pid} 2>/dev/null && echo won`).join("; "),
    "reads what the server has open": pids.map((pid) => `ls /proc/${pid}/fd/0 2>/dev/null && echo won`).join(
      "; ",
    ),
    "reads the sessions": `head -c 6 ${data}/tare.db | grep -q SQLite && echo won`,
    "writes beside the sessions": `echo a >${data}/planted && echo won`,
    ...Object.fromEntries(
      KEY_FILES.map((file) => [`reads ~/${file}`, `${secret} ${home}/${file} && echo won`]),
    ),
    "reads keys of MCP servers": `${secret} settings/mcp.json && echo won`,
    "reads another project": `${secret} ${top}/beside/project.txt && echo won`,
    "writes outside of the workspace":
      `echo a >${top}/beside/planted; test -s ${top}/beside/planted && echo won`,
    "writes a shell's profile": `test -f ${home}/.bashrc && echo a >>${home}/.bashrc && echo won`,
    "writes what its next commands are": `echo a >/usr/local/bin/planted-by-a-test && echo won; ` +
      "rm -f /usr/local/bin/planted-by-a-test",
    "reaches the server's port": `bash -c 'exec 3<>/dev/tcp/127.0.0.1/${port}' && echo won`,
    "reaches the system's settings": "test -w /proc/sys/kernel/core_pattern && echo won",
    "finds the sockets of other programs": `test -S ${top}/beside/socket && echo won`,
    "writes a hook of git": "echo evil >.git/hooks/post-checkout && echo won",
    "writes git's settings": "echo evil >>.git/config && echo won",
    "gives git another folder for them": "echo ../evil >.git/commondir && echo won; rm -f .git/commondir",
    "puts another .git in its place":
      "mv .git old 2>/dev/null && mkdir .git && echo won; rmdir .git 2>/dev/null; test -e old && mv old .git",
    "writes the rules": "echo '[ ]' >settings/rules.json && echo won",
    "puts other rules in their place":
      "mv settings old && mkdir settings && echo won; rmdir settings 2>/dev/null; test -e old && mv old settings",
    "links to what is hidden": `ln -sf ${home}/.ssh/id_ed25519 link; ${secret} link && echo won; rm -f link`,
    "mounts away what hides":
      `unshare -Urm sh -c 'umount -l ${home}; cat ${home}/.ssh/id_ed25519' 2>/dev/null | ${secret} && echo won; ` +
      `${secret} ${home}/.ssh/id_ed25519 2>/dev/null && echo won`,
  };
}

export function isGone(seconds: number): Readonly<Record<string, string>> {
  return {
    "out of its group, without its environment": `env -i setsid -f sleep ${seconds}`,
    "by two forks": `(setsid sh -c 'env -i sleep ${seconds} >/dev/null 2>&1 &' &)`,
    "deaf": `env -i setsid sh -c 'trap "" TERM HUP INT; sleep ${seconds}' >/dev/null 2>&1 & true`,
  };
}

export async function sleepers(seconds: number): Promise<number> {
  const { stdout } = await new Deno.Command("ps", { args: ["-A", "-o", "stat=,args="] }).output();
  const lines = new TextDecoder().decode(stdout).split("\n");
  return lines.filter((line) => !line.startsWith("Z") && line.trim().endsWith(` sleep ${seconds}`)).length;
}

export async function processesWith(text: string): Promise<readonly number[]> {
  const { stdout } = await new Deno.Command("ps", { args: ["-A", "-o", "pid=,args="] }).output();
  const lines = new TextDecoder().decode(stdout).split("\n");
  return lines.filter((line) => line.includes(text)).map((line) => Number.parseInt(line));
}
