import { assertEquals, assertMatch, assertNotEquals, assertRejects } from "@std/assert";
import { serverAddress } from "../agent_client.ts";
import { findOwnerKey } from "./find_owner_key.ts";
import { join } from "@std/path";
import { noteOwnerPort, ownerKey } from "./owner_key.ts";
import { settingsPaths, storeSettings } from "./settings_files.ts";

async function withFolder<T>(use: (folder: string) => Promise<T>): Promise<T> {
  const folder = await Deno.makeTempDir();
  try {
    return await use(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("ownerKey() creates a key once, replaces a truncated file, and rejects if it can't write", () =>
  withFolder(async (data) => {
    const [one, other] = await Promise.all([ownerKey(data), ownerKey(data)]);
    assertMatch(one, /^tare_[\w-]{43}$/);
    assertEquals([other, await ownerKey(data)], [one, one]);
    await Deno.writeTextFile(join(data, "owner.json"), '{"key":"tare_');
    assertNotEquals(await ownerKey(data), one);
    await assertRejects(
      () => ownerKey(join(data, "none")),
      RangeError,
      `Cannot write the owner's key to ${join(data, "none", "owner.json")}`,
    );
  }));

Deno.test("ownerKey() waits for the key of a concurrent start", () =>
  withFolder(async (data) => {
    const path = join(data, "owner.json");
    await Deno.writeTextFile(path, "");
    const taken = ownerKey(data);
    const key = await withFolder(ownerKey);
    // It has read the empty file once by now.
    await Deno.writeTextFile(path, JSON.stringify({ key, ports: [] }));
    assertEquals(await taken, key);
  }));

Deno.test("findOwnerKey() returns the key of the last server on a port, or of TARE_DATA", () =>
  withFolder(async (home) => {
    const variables = { XDG_DATA_HOME: home, HOME: home, LOCALAPPDATA: home };
    const all = join(
      Deno.build.os === "darwin" ? join(home, "Library", "Application Support") : home,
      "tare",
    );
    const [a, b] = [join(all, "a"), join(all, "b")];
    for (const folder of [a, b]) await Deno.mkdir(folder, { recursive: true });
    await Deno.mkdir(join(all, "no server's"));
    const keys = { a: await ownerKey(a), b: await ownerKey(b) };
    const found = (port: number, more = {}) => findOwnerKey(port, { ...variables, ...more });
    assertEquals(found(1), undefined);
    await noteOwnerPort(a, 1);
    await noteOwnerPort(b, 2);
    assertEquals([found(1), found(2), found(3)], [keys.a, keys.b, undefined]);
    // One server moves to another port; the other takes its port.
    await noteOwnerPort(b, 1);
    await noteOwnerPort(a, 3);
    assertEquals([found(1), found(3), found(2)], [keys.b, keys.a, keys.b]);
    assertEquals(found(9, { TARE_DATA: a }), keys.a);
    assertEquals(found(9, { TARE_DATA: "a", INIT_CWD: all }), keys.a);
    assertEquals(findOwnerKey(1, {}), undefined);
    const at = async (url: string, more: Readonly<Record<string, string>> = {}) => {
      const all: Readonly<Record<string, string>> = { ...variables, ...more };
      return (await serverAddress((name) => all[name], url)).token;
    };
    assertEquals(await at("http://127.0.0.1:1"), keys.b);
    assertEquals(await at("http://localhost:3/"), keys.a);
    assertEquals(await at("http://[::1]:3"), keys.a);
    assertEquals(await at("http://127.0.0.1:1", { TARE_TOKEN: "t" }), "t");
    // Other machines don't get it.
    assertEquals(await at("http://agent.example:1"), undefined);
    assertEquals(await at("http://127.0.0.1.example:1"), undefined);
    // A stored key comes before the one in the data folder.
    const config = { ...variables, XDG_CONFIG_HOME: join(home, "config") };
    await storeSettings(settingsPaths(config)!.user, { TARE_TOKEN: "stored" });
    assertEquals(await at("http://127.0.0.1:1", config), "stored");
    assertEquals(await at("http://agent.example:1", config), undefined);
  }));
