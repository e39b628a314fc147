/**
 * Sandbox for tests and benchmarks. Contains no tests.
 *
 * @module
 */
import { findSandbox, type Sandbox } from "./sandbox.ts";

export function sandboxOf(
  workspace: string,
  options: Partial<Parameters<typeof findSandbox>[0]> = {},
): Promise<Sandbox | { readonly why: string }> {
  return findSandbox({
    workspace,
    home: Deno.env.get("HOME"),
    path: Deno.env.get("PATH"),
    async tryOut(program, args) {
      const { success, stderr } = await new Deno.Command(program, { args: [...args] }).output();
      return success ? undefined : new TextDecoder().decode(stderr);
    },
    ...options,
  });
}
