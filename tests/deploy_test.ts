// Checks that the files of deploy/ fit the programs that they start.
import { assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { parseAllDocuments } from "yaml";
import { readSettings, VARIABLES } from "../packages/app/settings/settings.ts";
import { needs, SYSTEMD } from "./needs.ts";

const ROOT = fromFileUrl(new URL("..", import.meta.url));
const unit = await Deno.readTextFile(join(ROOT, "deploy/tare@.service"));
const image = await Deno.readTextFile(join(ROOT, "deploy/Containerfile"));
const { tasks } = JSON.parse(await Deno.readTextFile(join(ROOT, "deno.json")));

const namesIn = (text: string, line: RegExp) =>
  [...text.matchAll(line)].flatMap(([, rest = ""]) =>
    [...rest.matchAll(/(\w+)=/g)].map(([, name = ""]) => name)
  );
const DENOS = ["DENO_DIR", "DENO_NO_UPDATE_CHECK", "NO_COLOR"];

Deno.test("deploy/tare@.service: its variables are read by the server, and its task exists", () => {
  const names = namesIn(unit, /^Environment=(.*)$/gm);
  assertEquals(names.filter((name) => !VARIABLES.includes(name)).sort(), DENOS);
  assertEquals(/^ExecStart=\S+\/deno task (\w+)$/m.exec(unit)?.[1]! in tasks, true);
});

/** Time of a shutdown beyond the current steps, in seconds, with reserve. */
const END_S = 10;

Deno.test("deploy/tare@.service: a server has enough time for an orderly shutdown", () => {
  const seconds = Number(/^TimeoutStopSec=(\d+)$/m.exec(unit)?.[1]);
  assertEquals(seconds >= readSettings([], {}).endWithinSeconds + END_S, true);
});

Deno.test(needs(SYSTEMD, "deploy/tare@.service: systemd accepts the unit"), async () => {
  const folder = await Deno.makeTempDir();
  const path = join(folder, "tare@8787.service");
  // Whether a program exists depends on the machine.
  await Deno.writeTextFile(path, unit.replace("/usr/local/bin/deno", "/bin/true"));
  const { code, stderr } = await new Deno.Command("systemd-analyze", { args: ["verify", "--man=no", path] })
    .output();
  assertEquals([code, new TextDecoder().decode(stderr)], [0, ""]);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("deploy/Containerfile: the image has the tested Deno version, and existing files", async () => {
  const ci = await Deno.readTextFile(join(ROOT, ".ci/run"));
  assertEquals(/deno@[\d.]+/.exec(image)?.[0], /deno@[\d.]+/.exec(ci)?.[0]);
  assertEquals(
    namesIn(image, /^ENV (.*)$/gm).filter((name) => !VARIABLES.includes(name)).sort(),
    DENOS,
  );
  const cached = /deno cache --frozen (.*?) \\$/m.exec(image)?.[1]?.split(" ") ?? [];
  assertEquals(cached.length > 0, true);
  for (const path of cached) Deno.statSync(join(ROOT, path));
  const [, ...entry] = /^ENTRYPOINT (.*)$/m.exec(image)!;
  assertEquals(JSON.parse(entry[0]!).slice(-3), ["deno", "task", "start"]);
  // Each line is an instruction, its continuation, or a comment.
  const lines = image.replaceAll("\\\n", "").split("\n").filter((line) =>
    line !== "" && !line.startsWith("#")
  );
  const known = /^(FROM|RUN|ENV|WORKDIR|COPY|USER|EXPOSE|VOLUME|STOPSIGNAL|ENTRYPOINT) \S/;
  assertEquals(lines.filter((line) => !known.test(line)), []);
});

interface Manifest {
  readonly kind: string;
  readonly data: Readonly<Record<string, string>>;
  readonly metadata: { readonly name: string };
  readonly spec: {
    readonly selector: Labels & { readonly matchLabels?: Labels };
    readonly ports: readonly { readonly targetPort: string }[];
    readonly template: { readonly metadata: { readonly labels: Labels }; readonly spec: Pod };
  };
}

type Labels = Readonly<Record<string, unknown>>;

interface Pod {
  readonly enableServiceLinks: boolean;
  readonly terminationGracePeriodSeconds: number;
  readonly containers: readonly {
    readonly command?: readonly string[];
    readonly env: readonly { readonly name: string; readonly value?: string }[];
    readonly envFrom: readonly { readonly configMapRef: { readonly name: string } }[];
    readonly ports: readonly { readonly name: string; readonly containerPort: number }[];
    readonly volumeMounts: readonly { readonly name: string; readonly mountPath: string }[];
    readonly startupProbe: Probe;
    readonly livenessProbe: Probe;
    readonly readinessProbe: Probe;
    readonly lifecycle: { readonly preStop: { readonly exec: { readonly command: readonly string[] } } };
  }[];
  readonly volumes: readonly {
    readonly name: string;
    readonly secret?: { readonly items: readonly { readonly path: string }[] };
  }[];
}

interface Probe {
  readonly httpGet: { readonly path: string; readonly port: string };
}

async function manifestsOf(file: string): Promise<Manifest[]> {
  const text = await Deno.readTextFile(join(ROOT, "deploy", file));
  return parseAllDocuments(text).map((document) => document.toJS());
}

function databaseOf({ containers: [container], volumes }: Pod): readonly (string | undefined)[] {
  const setting = container!.env.find(({ name }) => name === "TARE_DATABASE")?.value;
  const { name, secret } = volumes.find(({ secret }) => secret)!;
  const mount = container!.volumeMounts.find((mount) => mount.name === name);
  return [setting, `${mount?.mountPath}/${secret!.items[0]!.path}`];
}

Deno.test("deploy/kubernetes.yaml: its variables are read by the server, and its parts reference each other", async () => {
  const [config, deployment, service, budget] = await manifestsOf("kubernetes.yaml");
  const { metadata: { labels }, spec: pod } = deployment!.spec.template;
  const [container] = pod.containers;
  const names = [...Object.keys(config!.data), ...container!.env.map(({ name }) => name)];
  assertEquals(names.filter((name) => !VARIABLES.includes(name)), []);
  assertEquals(new Set(names).size, names.length);
  assertEquals(container!.envFrom.map(({ configMapRef }) => configMapRef.name), [config!.metadata.name]);
  const selectors = [
    deployment!.spec.selector.matchLabels,
    service!.spec.selector,
    budget!.spec.selector.matchLabels,
  ];
  assertEquals(selectors, [labels, labels, labels]);
  const [port] = container!.ports;
  assertEquals(port!.containerPort, Number(/^EXPOSE (\d+)$/m.exec(image)?.[1]));
  assertEquals(service!.spec.ports.map(({ targetPort }) => targetPort), [port!.name]);
  const probes = [container!.startupProbe, container!.livenessProbe, container!.readinessProbe];
  assertEquals(probes.map(({ httpGet: { path, port } }) => [path, port]), [
    ["/health", port!.name],
    ["/health", port!.name],
    ["/health/ready", port!.name],
  ]);
  // A server that is killed during the transfer has its turns taken over later.
  const pause = Number(container!.lifecycle.preStop.exec.command[1]);
  const endWithin = Number(config!.data.TARE_END_WITHIN);
  assertEquals(pod.terminationGracePeriodSeconds >= pause + endWithin + END_S, true);
  // A service of this name would set TARE_PORT to its address.
  assertEquals([service!.metadata.name, pod.enableServiceLinks], ["tare", false]);
  const [setting, mounted] = databaseOf(pod);
  assertEquals(setting, mounted);
});

Deno.test("deploy/kubernetes_move.yaml: its task exists and uses the same database", async () => {
  const [job] = await manifestsOf("kubernetes_move.yaml");
  const { spec: pod } = job!.spec.template;
  const [container] = pod.containers;
  assertEquals(container!.command?.slice(0, -1), ["tini", "--", "deno", "task"]);
  assertEquals(container!.command!.at(-1)! in tasks, true);
  const [setting, mounted] = databaseOf(pod);
  assertEquals([setting, pod.enableServiceLinks], [mounted, false]);
  const data = container!.volumeMounts.find(({ name }) => name === "data")?.mountPath;
  assertEquals(data, /TARE_DATA=(\S+)/.exec(image)?.[1]);
});
