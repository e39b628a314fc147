import { join } from "@std/path";

/** What the owner's programs send to a server with this data folder. */
export function ownerOf(data: string): Readonly<Record<string, string>> {
  const { key } = JSON.parse(Deno.readTextFileSync(join(data, "owner.json")));
  return { authorization: `Bearer ${key}` };
}
