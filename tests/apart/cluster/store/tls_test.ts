import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { StoreError } from "@tare/session";
import { openPostgresStore } from "@tare/session/postgres";
import { generate, type GenerateResult } from "selfsigned";
import { agentClient } from "../../../../packages/cli/agent_client.ts";
import { startProcess } from "../../../../packages/app/server_process_fixture_test.ts";
import { sessionRecord } from "../../../../packages/session/store/store_suite_fixture_test.ts";
import { needs } from "../../../needs.ts";
import { ownServer, query, startPostgres } from "../postgres.ts";

const MODERN = { keyType: "ec", algorithm: "sha256" } as const;

function authority(name: string): Promise<GenerateResult> {
  return generate([{ name: "commonName", value: name }], {
    ...MODERN,
    extensions: [
      { name: "basicConstraints", cA: true, critical: true },
      { name: "keyUsage", keyCertSign: true, critical: true },
    ],
  });
}

function certificate(ca: GenerateResult, addresses: readonly string[]): Promise<GenerateResult> {
  return generate([{ name: "commonName", value: "database" }], {
    ...MODERN,
    ca: { key: ca.private, cert: ca.cert },
    extensions: [
      { name: "basicConstraints", cA: false },
      { name: "extKeyUsage", serverAuth: true },
      { name: "subjectAltName", altNames: addresses.map((ip) => ({ type: 7, ip })) },
    ],
  });
}

const [ours, others] = [await authority("ours"), await authority("another one")];
const { cert, private: key } = await certificate(ours, ["127.0.0.1"]);
const postgres = await startPostgres({ tls: { cert, key } });

async function withDatabase(
  test: (at: (parameters: Readonly<Record<string, string>>) => string, folder: string) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  const url = await postgres.makeDatabase();
  try {
    await Deno.writeTextFile(join(folder, "ours.pem"), ours.cert);
    await Deno.writeTextFile(join(folder, "others.pem"), others.cert);
    await test((parameters) => `${url}?${new URLSearchParams(parameters)}`, folder);
  } finally {
    await postgres.dropDatabase(url);
    await Deno.remove(folder, { recursive: true });
  }
}

async function areEncrypted(address: string): Promise<readonly boolean[]> {
  const url = new URL(address);
  const rows = await query<{ ssl: boolean }>(
    postgres.url,
    `SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid)
     WHERE datname = $1 AND application_name = 'tare'`,
    [url.pathname.slice(1)],
  );
  return rows.map(({ ssl }) => ssl);
}

Deno.test(
  needs(ownServer(postgres), "TLS: a store with a verified certificate works as without TLS"),
  () =>
    withDatabase(async (at, folder) => {
      const address = at({ sslmode: "verify-full", sslrootcert: join(folder, "ours.pem") });
      const [one, two] = [await openPostgresStore(address), await openPostgresStore(address)];
      await one.commit([sessionRecord("s")]);
      const changed = Promise.withResolvers<void>();
      const unwatch = two.shared.watch("s", () => changed.resolve());
      await one.shared.hold("s");
      await one.commit([{ type: "events", sessionId: "s", after: 0, events: [{ type: "turn_start" }] }]);
      await changed.promise;
      assertEquals((await two.readEvents("s")).map(({ number }) => number), [1]);
      unwatch();
      const encrypted = await areEncrypted(address);
      assert(encrypted.length >= 4 && encrypted.every(Boolean), `${encrypted}`);
      await Promise.all([one.close(), two.close()]);
    }),
);

Deno.test(
  needs(
    ownServer(postgres),
    "TLS: a database with an untrusted certificate is refused, and the error contains no password",
  ),
  () =>
    withDatabase(async (at, folder) => {
      const root = (name: string) => ({ sslrootcert: join(folder, name) });
      const refused = [
        ...["prefer", "require", "verify-ca", "verify-full"].map((sslmode) => ({ sslmode })),
        { sslmode: "verify-full", ...root("others.pem") },
      ];
      for (const parameters of refused) {
        const error = await assertRejects(
          () => openPostgresStore(at(parameters)),
          StoreError,
          "certificate",
          JSON.stringify(parameters),
        );
        assertStringIncludes(error.message, "sslrootcert");
        assertEquals(error.message.includes("only%20for%20tests"), false);
      }
      const store = await openPostgresStore(at({ sslmode: "no-verify" }));
      assertEquals((await areEncrypted(at({}))).every(Boolean), true);
      await store.close();
    }),
);

Deno.test(
  needs(ownServer(postgres), "TLS: a server reads the certificates in its database's address"),
  () =>
    withDatabase(async (at, folder) => {
      const workspace = join(folder, "workspace");
      await Deno.mkdir(workspace);
      const args = ["--port", "0", "--workspace", workspace, "--data", join(folder, "data")];
      const TARE_DATABASE = at({ sslmode: "verify-full", sslrootcert: join(folder, "ours.pem") });
      const server = await startProcess(args, { TARE_DATABASE });
      const messages = new TextEncoder().encode('{"role":"user","content":"Hello?"}');
      const [session = ""] = await agentClient(server.url).importSessions(messages);
      assertEquals(await agentClient(server.url).questions(session), ["Hello?"]);
      assertEquals((await areEncrypted(TARE_DATABASE)).every(Boolean), true);
      const { code, stderr } = await server.end("SIGTERM");
      assertEquals([code, stderr], [0, ""]);
    }),
);
