import { assertEquals, assertThrows } from "@std/assert";
import { join } from "@std/path";
import { readSettings, settingsHelp } from "./settings.ts";

const databaseOf = (TARE_DATABASE: string, others: Record<string, string> = {}) =>
  readSettings([], { TARE_DATABASE, ...others }).database;

Deno.test("readSettings() reads a database's address: host and name are public, the rest is secret", () => {
  const url = "postgres://me:p%40ss@db.example/tare?sslmode=verify-full";
  assertEquals(databaseOf(url), {
    url,
    label: "tare at db.example:5432",
    at: { host: "db.example:5432" },
    files: [],
  });
  assertEquals(databaseOf("postgresql://me@[::1]:6432/two%20words"), {
    url: "postgresql://me@[::1]:6432/two%20words",
    label: "two words at [::1]:6432",
    at: { host: "[::1]:6432" },
    files: [],
  });
  const socket = "postgres://me@%2Fvar%2Frun%2Fpostgresql/tare";
  assertEquals(databaseOf(socket), {
    url: socket,
    label: "tare at /var/run/postgresql",
    at: { socket: "/var/run/postgresql/.s.PGSQL.5432" },
    files: [],
  });
  const checked = "postgres://me@h/d?sslmode=verify-full&sslrootcert=/etc/ca.pem&sslkey=/etc/key.pem";
  assertEquals(databaseOf(checked)?.files, ["/etc/ca.pem", "/etc/key.pem"]);
  assertEquals(readSettings([], {}).database, undefined);
});

Deno.test("readSettings() reads a database's address from a file, such as a container's secret", async () => {
  const folder = await Deno.makeTempDir();
  const path = join(folder, "secret");
  try {
    await Deno.writeTextFile(path, "postgres://me:planted@h/d\n");
    const found = {
      url: "postgres://me:planted@h/d",
      label: "d at h:5432",
      at: { host: "h:5432" },
      files: [path],
    };
    assertEquals([databaseOf(path), databaseOf("secret", { INIT_CWD: folder })], [found, found]);
    await Deno.writeTextFile(path, "planted");
    assertThrows(
      () => databaseOf(path),
      RangeError,
      "Cannot start: TARE_DATABASE names a file that doesn't begin with postgres://.",
    );
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("readSettings() reports an invalid database address without quoting it", () => {
  const start = "Cannot start: TARE_DATABASE ";
  const faults = {
    "mysql://me:planted@h/d":
      "is invalid. It must be an address such as postgres://user:password@host:5432/name, or a file that contains one.",
    "postgres://me:pl#anted@h/d":
      "is not a valid address. In a password encode # % / : ? @ as %23 %25 %2F %3A %3F %40.",
    "postgres://me:planted%zz@h/d": "is not a valid address. Encode % as %25.",
    "postgres://me:planted@h:99999/d":
      "is not a valid address. In a password encode # % / : ? @ as %23 %25 %2F %3A %3F %40.",
    "postgres://me:planted@a,b/d":
      "must contain one host, or a socket's folder such as %2Fvar%2Frun%2Fpostgresql.",
    "postgres:///d?password=planted":
      "must contain one host, or a socket's folder such as %2Fvar%2Frun%2Fpostgresql.",
    "postgres://h/d?password=planted": "must contain a user before the host.",
    "postgres://me:planted@h": "must contain a database name after the host.",
    "postgres://me:planted@h/d?sslmode=planted":
      "has an invalid sslmode. Use one of disable, prefer, require, verify-ca, verify-full, no-verify.",
    "postgres://me:planted@h/d?sslrootcert=planted":
      "has a relative path in one of sslrootcert, sslcert, sslkey. Use absolute paths.",
  };
  for (const [address, fault] of Object.entries(faults)) {
    const error = assertThrows(() => databaseOf(address), RangeError);
    assertEquals(error.message, start + fault, address);
  }
  assertThrows(
    () => databaseOf("postgres://me:planted@h/d", { TARE_MAX_DATA: "5" }),
    RangeError,
    "TARE_DATABASE and TARE_MAX_DATA are both set",
  );
});

Deno.test("readSettings() reads the bucket of large texts, which requires a database and credentials", () => {
  const given = {
    ...{ TARE_DATABASE: "postgres://me@h/d", AWS_ACCESS_KEY_ID: "a", AWS_SECRET_ACCESS_KEY: "planted" },
  };
  const archiveOf = (TARE_ARCHIVE: string, others: Record<string, string> = {}) =>
    readSettings([], { ...given, TARE_ARCHIVE, ...others }).archive;
  const region = "eu-west-1";
  assertEquals(archiveOf("s3://texts?region=eu-west-1"), { bucket: "texts", prefix: "", region });
  assertEquals(archiveOf("s3://texts/a/b?region=eu-central-1&endpoint=https://minio.example:9000"), {
    bucket: "texts",
    prefix: "a/b/",
    region: "eu-central-1",
    endpoint: "https://minio.example:9000",
  });
  assertEquals(archiveOf("s3://texts/a/?region=eu-west-1"), { bucket: "texts", prefix: "a/", region });
  for (
    const wrong of [
      ...[
        "texts",
        "s3://texts",
        "https://texts",
        "s3://",
        "s3://Texts",
        "s3://me:planted@texts",
        "s3://texts/a//b",
        "s3://texts/ü",
      ],
      ...["s3://texts?region=eu&zone=eu", "s3://texts?region=eu&endpoint=minio", "s3://texts?region=eu/west"],
    ]
  ) {
    const error = assertThrows(() => archiveOf(wrong), RangeError);
    assertEquals(
      error.message,
      "Cannot start: TARE_ARCHIVE is invalid. It must be an address such as " +
        "s3://bucket/prefix?region=eu-central-1, with &endpoint=https://host if it isn't Amazon's.",
    );
  }
  const keys =
    "Cannot start: TARE_ARCHIVE is set without AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Set them too.";
  const faults = {
    TARE_DATABASE:
      "Cannot start: TARE_ARCHIVE is set, but only sessions in a database have texts in a bucket. " +
      "Set TARE_DATABASE too, or omit TARE_ARCHIVE.",
    AWS_ACCESS_KEY_ID: keys,
    AWS_SECRET_ACCESS_KEY: keys,
  };
  for (const [name, message] of Object.entries(faults)) {
    assertEquals(
      assertThrows(() => archiveOf("s3://texts?region=eu", { [name]: "" }), RangeError).message,
      message,
    );
  }
});

Deno.test("settingsHelp() gives a database's address no flag: others can read a command line", () => {
  const line = settingsHelp({ all: true }).split("\n").find((line) => line.includes("TARE_DATABASE  "));
  assertEquals(line?.includes("--"), false);
});
