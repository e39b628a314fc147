/** A package as a registry holds it: what was uploaded, file by file. */
interface Published {
  readonly version: string;
  readonly exports: string | Readonly<Record<string, string>>;
  /** Content of each file by its path inside the package, which begins with a slash. */
  readonly files: ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
}

/**
 * What goes wrong for somebody who has nothing but the published packages of a workspace; `undefined` if nothing does.
 *
 * `deno publish` uploads the packages as they would go to JSR, imports rewritten and all, to a registry on loopback that
 * stands for JSR. Then a project in an empty folder imports each entry point of each package by its `jsr:` specifier. For
 * each README another project has what the README's `deno add` adds, and `@std/assert`, and runs its examples, type-checked.
 * `standIns` are folders of packages that the registry holds beside the uploaded ones, as they are.
 *
 * @throws {Error} if the system has no `tar`.
 */
export async function consumerFault(
  root: string,
  { standIns = [] }: { readonly standIns?: readonly string[] } = {},
): Promise<string | undefined> {
  const registry = new Map<string, Published>();
  for (const folder of standIns) {
    const { name, ...published } = await readPackage(`${root}/${folder}`);
    registry.set(name, published);
  }
  const made = await Deno.makeTempDir();
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    (request) => answer(request, { registry, folder: made }),
  );
  try {
    const env = {
      JSR_URL: `http://127.0.0.1:${server.addr.port}/`,
      DENO_COVERAGE_DIR: `${made}/coverage`,
    };
    const publish = ["publish", "--allow-dirty", "--no-check", "--no-provenance", "--token=none"];
    const publishing = await runDeno(publish, { cwd: root, env });
    if (!publishing.ok) return publishing.output;
    const uploaded = [...registry.keys()].slice(standIns.length);
    const files = uploaded.flatMap((name) =>
      [...registry.get(name)?.files.keys() ?? []].map((path) => name + path)
    );
    const tests = files.filter((path) => /_(test|bench)\.ts$/.test(path));
    if (tests.length > 0) return `Cannot publish tests and benchmarks: ${tests.join(", ")}`;

    const consumers = await writeConsumers(made, { registry, uploaded });
    // What is downloaded from this registry belongs in no cache that lasts; packages of npm are as everywhere.
    const cache = `${made}/cache`;
    await Deno.mkdir(cache);
    await Deno.symlink(JSON.parse((await runDeno(["info", "--json"])).output).npmCache, `${cache}/npm`);
    const test = ["test", "--doc", "--no-lock", "--allow-all"];
    for (const consumer of consumers) {
      const consuming = await runDeno(test, { cwd: consumer, env: { ...env, DENO_DIR: cache } });
      if (!consuming.ok) return consuming.output;
    }
    return undefined;
  } finally {
    await server.shutdown();
    await Deno.remove(made, { recursive: true });
  }
}

/** Makes a project that uses all entry points, and one for each README, and returns their folders. */
async function writeConsumers(
  made: string,
  { registry, uploaded }: {
    readonly registry: ReadonlyMap<string, Published>;
    readonly uploaded: readonly string[];
  },
): Promise<readonly string[]> {
  const specifier = (name: string) => `jsr:${name}@${registry.get(name)?.version}`;
  const writeProject = async (name: string, names: readonly string[]) => {
    const folder = `${made}/consumers/${name.replaceAll("/", "_")}`;
    await Deno.mkdir(folder, { recursive: true });
    const imports = Object.fromEntries(names.map((name) => [name, specifier(name)]));
    await Deno.writeTextFile(`${folder}/deno.json`, JSON.stringify({ imports }));
    return folder;
  };
  const all = await writeProject("all", [...registry.keys()]);
  const folders = [all];
  const entries: string[] = [];
  for (const name of uploaded) {
    const { exports = {}, files } = registry.get(name) ?? {};
    const paths = typeof exports === "string" ? ["."] : Object.keys(exports);
    entries.push(...paths.map((path) => `import "${specifier(name)}${path.slice(1)}";\n`));
    const readme = files?.get("/README.md");
    if (!readme) continue;
    const [, line = ""] = /^deno add (.*)$/m.exec(new TextDecoder().decode(readme)) ?? [];
    const added = [...line.matchAll(/jsr:(@[\w-]+\/[\w-]+)/g)].map(([, one]) => one!);
    const folder = await writeProject(name, [...added, ...registry.has(ASSERT) ? [ASSERT] : []]);
    await Deno.writeFile(`${folder}/README.md`, readme);
    folders.push(folder);
  }
  await Deno.writeTextFile(`${all}/entry_points_test.ts`, entries.join(""));
  return folders;
}

/** By what examples state results. */
const ASSERT = "@std/assert";

/** As much of JSR's interface as `deno publish` and imports of `jsr:` specifiers need. */
async function answer(
  request: Request,
  { registry, folder }: { readonly registry: Map<string, Published>; readonly folder: string },
): Promise<Response> {
  const { pathname } = new URL(request.url);
  if (request.method === "POST") {
    const unpacked = await Deno.makeTempDir({ dir: folder });
    await unpack(new Uint8Array(await request.arrayBuffer()), unpacked);
    const { name, ...published } = await readPackage(unpacked);
    registry.set(name, published);
    return Response.json({ id: name, status: "success", error: null });
  }
  // The package is there, the version isn't yet.
  if (/^\/api\/scopes\/[^/]+\/packages\/[^/]+$/.test(pathname)) return Response.json({});
  const [, name = "", version, rest = ""] =
    /^\/(@[^/]+\/[^/]+)\/(?:([^/]+?)(?=_meta\.json$|\/))?(.*)$/.exec(pathname) ?? [];
  const published = registry.get(name);
  if (!published) return Response.json({ code: "notFound", message: pathname }, { status: 404 });
  if (version === undefined) {
    return Response.json({ latest: published.version, versions: { [published.version]: {} } });
  }
  const file = published.files.get(rest);
  if (file) return new Response(file);
  if (rest !== "_meta.json") return new Response(undefined, { status: 404 });
  const { exports } = published;
  return Response.json({
    exports: typeof exports === "string" ? { ".": exports } : exports,
    manifest: Object.fromEntries(
      await Promise.all([...published.files].map(async ([path, content]) => [path, {
        size: content.length,
        checksum: `sha256-${new Uint8Array(await crypto.subtle.digest("SHA-256", content)).toHex()}`,
      }])),
    ),
  });
}

async function readPackage(folder: string): Promise<Published & { readonly name: string }> {
  const { name, version, exports } = JSON.parse(await Deno.readTextFile(`${folder}/deno.json`));
  const files = new Map<string, Uint8Array<ArrayBuffer>>();
  const read = async (path: string) => {
    for await (const entry of Deno.readDir(folder + path)) {
      const inner = `${path}/${entry.name}`;
      if (entry.isDirectory) await read(inner);
      else files.set(inner, await Deno.readFile(folder + inner));
    }
  };
  await read("");
  return { name, version, exports, files };
}

async function unpack(archive: Uint8Array<ArrayBuffer>, folder: string): Promise<void> {
  const file = `${folder}.tar.gz`;
  await Deno.writeFile(file, archive);
  const { success, stderr } = await new Deno.Command("tar", { args: ["-xzf", file, "-C", folder] }).output();
  if (!success) throw new Error(`Cannot unpack a package: ${new TextDecoder().decode(stderr)}`);
}

/**
 * Runs this Deno, without colours, and hands over all that it wrote: standard output, then standard error. If a signal
 * ends it, Deno itself has crashed, which says nothing of what it was asked: it is asked once more.
 */
export async function runDeno(
  args: readonly string[],
  { env = {}, ...options }: Pick<Deno.CommandOptions, "cwd" | "env"> = {},
): Promise<{ readonly ok: boolean; readonly output: string }> {
  const command = new Deno.Command(Deno.execPath(), {
    args: [...args],
    env: { NO_COLOR: "1", ...env },
    ...options,
  });
  let { success, signal, stdout, stderr } = await command.output();
  if (signal) ({ success, signal, stdout, stderr } = await command.output());
  const output = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  return { ok: success, output: signal ? `${output}Ended by ${signal}.\n` : output };
}
