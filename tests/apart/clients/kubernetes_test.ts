import { assertEquals, assertThrows } from "@std/assert";
import { Job } from "kubernetes-models/batch/v1";
import { Deployment } from "kubernetes-models/apps/v1";
import { PodDisruptionBudget } from "kubernetes-models/policy/v1";
import { ConfigMap, Service } from "kubernetes-models/v1";
import { parseAllDocuments } from "yaml";

const MODELS = {
  ConfigMap: { Model: ConfigMap, module: "v1" },
  Deployment: { Model: Deployment, module: "apps/v1" },
  Job: { Model: Job, module: "batch/v1" },
  PodDisruptionBudget: { Model: PodDisruptionBudget, module: "policy/v1" },
  Service: { Model: Service, module: "v1" },
};

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
  readonly [field: string]: unknown;
}

async function manifestsOf(file: string): Promise<Manifest[]> {
  const text = await Deno.readTextFile(new URL(`../../../deploy/${file}`, import.meta.url));
  return parseAllDocuments(text).map((document) => document.toJS());
}

async function faultsOf(manifests: readonly Manifest[]): Promise<string[]> {
  const path = await Deno.makeTempFile({ suffix: ".ts" });
  try {
    const values = manifests.map((manifest, at) => {
      const { module } = MODELS[manifest.kind as keyof typeof MODELS];
      const type = `import("kubernetes-models/${module}").I${manifest.kind}`;
      return `export const m${at}: ${type} = ${JSON.stringify(manifest)};\n`;
    });
    await Deno.writeTextFile(path, values.join(""));
    const config = new URL("../deno.json", import.meta.url).pathname;
    const { success, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["check", "--quiet", "--config", config, path],
      env: { NO_COLOR: "1" },
    }).output();
    const output = new TextDecoder().decode(stderr);
    const faults = [...output.matchAll(/^\s*TS\d+ \[ERROR\]: (.*)$/gm)].map(([, fault = ""]) => fault);
    if (success !== (faults.length === 0)) throw new Error(`Cannot check manifests: ${output}`);
    return faults;
  } finally {
    await Deno.remove(path);
  }
}

function validate(manifest: Manifest): void {
  const { Model } = MODELS[manifest.kind as keyof typeof MODELS];
  const { apiVersion, kind } = Model;
  assertEquals([manifest.apiVersion, manifest.kind], [apiVersion, kind]);
  new Model(manifest as never).validate();
}

Deno.test("deploy manifests: every field and value is valid in Kubernetes' schema", async () => {
  const servers = await manifestsOf("kubernetes.yaml");
  assertEquals(servers.map(({ kind }) => kind), [
    "ConfigMap",
    "Deployment",
    "Service",
    "PodDisruptionBudget",
  ]);
  const move = await manifestsOf("kubernetes_move.yaml");
  assertEquals(move.map(({ kind }) => kind), ["Job"]);
  for (const manifest of [...servers, ...move]) validate(manifest);
  assertEquals(await faultsOf([...servers, ...move]), []);
});

function changed(manifest: Manifest, path: readonly string[], value?: unknown): Manifest {
  const copy = structuredClone(manifest);
  let at: Record<string, unknown> = copy;
  for (const name of path.slice(0, -1)) at = at[name] as Record<string, unknown>;
  const last = path.at(-1)!;
  if (value === undefined) delete at[last];
  else at[last] = value;
  return copy;
}

Deno.test("deploy manifests: a wrong field or value is refused", async () => {
  const [, deployment] = await manifestsOf("kubernetes.yaml");
  const pod = ["spec", "template", "spec"];
  const wrong = [
    changed(deployment!, [...pod, "containers", "0", "livenesProbe"], {}),
    changed(deployment!, ["spec", "strategy", "type"], "Rolling"),
    changed(deployment!, [...pod, "terminationGracePeriodSeconds"], "60"),
  ];
  const faults = await faultsOf(wrong);
  // The compiler lists valid values in an order of its own.
  const output = [
    /'"?livenesProbe"?' does not exist in type/,
    /^Type '"Rolling"' is not assignable/,
    /^Type 'string' is/,
  ];
  assertEquals(
    faults.map((fault, at) => output[at]?.test(fault) ?? fault),
    [true, true, true],
    faults.join("\n"),
  );
  const message = "data/spec/strategy/type must be equal to one of the allowed values";
  assertThrows(() => validate(wrong[1]!), Error, message);
  assertThrows(
    () => validate(changed(deployment!, [...pod, "containers", "0", "name"])),
    Error,
    "data/spec/template/spec/containers/0 must have required property name",
  );
});
