import { assertEquals, assertMatch } from "@std/assert";
import { join } from "@std/path";
import { readSettings } from "./settings.ts";
import { LINUX, needs } from "../../../tests/needs.ts";

const dataOf = (workspace: string, environment: Record<string, string>) =>
  readSettings(["--workspace", workspace], environment).data;

Deno.test(
  needs(LINUX, "readSettings() places each workspace's sessions in a separate folder outside of it"),
  async () => {
    const top = await Deno.realPath(await Deno.makeTempDir());
    const [one, two] = [join(top, "one"), join(top, "two", "one")];
    await Deno.mkdir(one);
    await Deno.mkdir(two, { recursive: true });
    await Deno.symlink(one, join(top, "link"));
    try {
      const HOME = join(top, "home");
      const data = dataOf(one, { HOME });
      assertMatch(data.slice(HOME.length), /^\/\.local\/share\/tare\/one-[0-9a-f]{8}$/);
      assertEquals(dataOf(join(top, "link"), { HOME }), data);
      assertEquals(dataOf(two, { HOME }) === data, false);
      const XDG_DATA_HOME = join(top, "xdg");
      assertEquals(dataOf(one, { HOME, XDG_DATA_HOME }), data.replace(`${HOME}/.local/share`, XDG_DATA_HOME));
      assertEquals(dataOf(one, { HOME, XDG_DATA_HOME: "relative" }), data);
      assertEquals(dataOf(one, {}), join(one, ".tare"));
    } finally {
      await Deno.remove(top, { recursive: true });
    }
  },
);
