import { join } from "@std/path";

/** Returns the headers of the owner's programs for a server with this data folder. */
export function ownerOf(data: string): Readonly<Record<string, string>> {
  const { key } = JSON.parse(Deno.readTextFileSync(join(data, "owner.json")));
  return { authorization: `Bearer ${key}` };
}
