interface Published {
  readonly version: string;
  readonly exports: string | Readonly<Record<string, string>>;
  /** File contents by path in the package, with a leading slash. */
  readonly files: ReadonlyMap<string, Uint8Array<ArrayBuffer>>;
}

/**
 * Returns the first fault that a consumer of a workspace's published packages would meet; undefined if there is none.
 *
 * `deno publish` uploads the packages, with rewritten imports, to a registry on loopback in place of JSR. A project in an
 * empty folder imports each entry point by its `jsr:` specifier, and a project per README, with the packages that it imports,
 * runs its examples with type checks. `standIns` are folders of packages that the registry contains
 * unchanged.
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

/** Creates a project that uses all entry points, and one per README; resolves to their folders. */
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
    const text = new TextDecoder().decode(readme);
    const imported = [...text.matchAll(/(?: from|^import) "(@[\w-]+\/[\w-]+)/gm)].map(([, one]) => one!);
    const folder = await writeProject(name, imported.filter((one) => registry.has(one)));
    await Deno.writeFile(`${folder}/README.md`, readme);
    folders.push(folder);
  }
  await Deno.writeTextFile(`${all}/entry_points_test.ts`, entries.join(""));
  return folders;
}

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

/** Runs this Deno without colors; resolves to its output and errors. Retries once after a signal, a crash of Deno itself. */
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
