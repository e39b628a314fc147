export { systemCode } from "../define_tool.ts";

/** Whether the runtime's own permissions deny an access. */
export function isDenied(error: unknown): boolean {
  return error instanceof Error && error.name === "NotCapable";
}
