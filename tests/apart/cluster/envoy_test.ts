// Checks deploy/envoy.yaml against Envoy's own definitions of its configuration. No Envoy runs here: npm and
// Debian have none.
import { assertEquals, assertThrows } from "@std/assert";
import { dirname, fromFileUrl, join } from "@std/path";
import { createRequire } from "node:module";
import protobuf from "protobufjs";
import { parse } from "yaml";

const text = await Deno.readTextFile(fromFileUrl(new URL("../../../deploy/envoy.yaml", import.meta.url)));

const folderOf = (name: string) =>
  dirname(createRequire(import.meta.resolve(name)).resolve(`${name}/package.json`));
const definitions = ["envoy-api", "googleapis", "protoc-gen-validate", "xds"]
  .map((name) => join(folderOf("@grpc/grpc-js-xds"), "deps", name));

const root = new protobuf.Root();
root.resolvePath = (_, target) =>
  [...definitions, folderOf("protobufjs")].map((folder) => join(folder, target)).find(isFile) ?? target;
root.loadSync([
  "envoy/config/bootstrap/v3/bootstrap.proto",
  "envoy/extensions/filters/network/http_connection_manager/v3/http_connection_manager.proto",
  "envoy/extensions/filters/http/router/v3/router.proto",
  "envoy/extensions/retry/host/previous_hosts/v3/previous_hosts.proto",
], { keepCase: true });

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

type Fields = Readonly<Record<string, unknown>>;

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Types with a shorthand in the configuration. */
const WELL_KNOWN: Readonly<Record<string, (value: unknown) => boolean>> = {
  ".google.protobuf.Duration": (value) => typeof value === "string" && /^\d+(\.\d+)?s$/.test(value),
  ".google.protobuf.BoolValue": (value) => typeof value === "boolean",
  ".google.protobuf.UInt32Value": isWhole,
  ".google.protobuf.UInt64Value": isWhole,
};

function isWhole(value: unknown): boolean {
  return typeof value === "number" && Number.isInteger(value) && value >= 0;
}

const SCALARS: Readonly<Record<string, (value: unknown) => boolean>> = {
  string: (value) => typeof value === "string",
  bool: (value) => typeof value === "boolean",
  double: (value) => typeof value === "number",
  int64: isWhole,
  uint32: isWhole,
  uint64: isWhole,
};

/** Checks a message. @throws {Error} naming the first unknown or mistyped field. */
function check(type: protobuf.Type, value: unknown, at = type.name): void {
  if (!isFields(value)) throw new Error(`${at} is no message`);
  const chosen = new Map<string, string>();
  for (const [name, given] of Object.entries(value)) {
    const field = type.fields[name];
    if (!field) throw new Error(`${at} has no field ${name}`);
    if (field.partOf) {
      const before = chosen.get(field.partOf.name);
      if (before) throw new Error(`${at} has ${before} and ${name}, of which only one is allowed`);
      chosen.set(field.partOf.name, name);
    }
    if (field.repeated !== Array.isArray(given)) throw new Error(`${at}.${name} is one of many, or many`);
    const each: readonly unknown[] = Array.isArray(given) ? given : [given];
    for (const [index, one] of each.entries()) {
      checkField(field.resolve(), one, `${at}.${name}${field.repeated ? `[${index}]` : ""}`);
    }
  }
}

function checkField({ type, resolvedType }: protobuf.Field, value: unknown, at: string): void {
  const isRight = SCALARS[type] ?? WELL_KNOWN[resolvedType?.fullName ?? ""];
  if (resolvedType instanceof protobuf.Enum) {
    if (!Object.hasOwn(resolvedType.values, String(value))) throw new Error(`${at} can't be ${value}`);
  } else if (isRight) {
    if (!isRight(value)) throw new Error(`${at} can't be ${JSON.stringify(value)}`);
  } else if (resolvedType?.fullName === ".google.protobuf.Any") {
    if (!isFields(value)) throw new Error(`${at} is no message`);
    const { "@type": url, ...fields } = value;
    check(root.lookupType(String(url).replace("type.googleapis.com/", "")), fields, at);
  } else if (resolvedType instanceof protobuf.Type) check(resolvedType, value, at);
  else throw new Error(`${at} is a ${type}, which this test doesn't know`);
}

const bootstrap = root.lookupType("envoy.config.bootstrap.v3.Bootstrap");

Deno.test("deploy/envoy.yaml: the configuration is valid by Envoy's definitions", () => {
  check(bootstrap, parse(text));
  const faults = {
    "lb_policy: RING_HASH": ["lb_policy: RING", "clusters[0].lb_policy can't be RING"],
    "num_retries: 2": ["retries: 2", "retry_policy has no field retries"],
    "timeout: 2s": ["timeout: 2", "connect_timeout can't be 2"],
    "source_ip: true": ["source_ip: on", 'source_ip can\'t be "on"'],
  };
  for (const [right, [wrong = "", error = ""]] of Object.entries(faults)) {
    assertThrows(() => check(bootstrap, parse(text.replace(right, wrong))), Error, error);
  }
});

interface Route {
  readonly match: { readonly path?: string; readonly prefix?: string; readonly safe_regex?: Pattern };
  readonly route: {
    readonly timeout: string;
    readonly hash_policy?: readonly {
      readonly header?: {
        readonly header_name: string;
        readonly regex_rewrite?: { readonly pattern: Pattern; readonly substitution: string };
      };
    }[];
  };
}

interface Pattern {
  readonly regex: string;
}

Deno.test("deploy/envoy.yaml: requests are routed by a session's id in the path, and by the same names as in nginx", async () => {
  const [listener] = parse(text).static_resources.listeners;
  const [manager] = listener.filter_chains[0].filters;
  const routes: readonly Route[] = manager.typed_config.route_config.virtual_hosts[0].routes;
  // As Envoy does: the first that matches the whole path without its query.
  const routeOf = (path: string) =>
    routes.find(({ match }) =>
      match.path === path || match.prefix !== undefined && path.startsWith(match.prefix) ||
      match.safe_regex && new RegExp(`^(?:${match.safe_regex.regex})$`).test(path)
    );
  const hashed = (pathAndQuery: string) =>
    routeOf(pathAndQuery.split("?")[0]!)?.route.hash_policy?.map(({ header }) => {
      const { header_name: name, regex_rewrite: rewrite } = header ?? { header_name: "address" };
      if (!rewrite) return name;
      return pathAndQuery.replace(new RegExp(rewrite.pattern.regex), rewrite.substitution.replace("\\", "$"));
    });
  for (const path of ["", "?all=1", "/", "/turns", "/events?after=3", "/approvals/call%2F1"]) {
    assertEquals(hashed(`/tare/v1/sessions/s-1${path}`), ["s-1"], path);
  }
  for (
    const path of ["/", "/tare/v1/sessions", "/tare/v1/sessions/import", "/tare/v1/overview", "/v1/models"]
  ) {
    assertEquals(hashed(path), undefined, path);
  }
  const names = ["x-session-id", "x-claude-code-session-id", "session-id"];
  for (const path of ["/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/v1/chat/completions"]) {
    assertEquals(hashed(path), [...names, "x-tare-key", "x-api-key", "authorization", "address"], path);
  }
  const nginx = await Deno.readTextFile(fromFileUrl(new URL("../../../deploy/nginx.conf", import.meta.url)));
  const inOrder = Array.from(nginx.matchAll(/^map \$http_(\S+)/gm), ([, name]) => name!.replaceAll("_", "-"));
  assertEquals(inOrder, names);
  assertEquals([...new Set(routes.map(({ route }) => route.timeout))], ["0s"]);
});
