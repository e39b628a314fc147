import { join } from "@std/path";
import S3rver from "@20minutes/s3rver";

export const CREDENTIALS = { accessKeyId: "S3RVER", secretAccessKey: "S3RVER" } as const;

/** S3-compatible server with one bucket. */
export interface S3Server extends AsyncDisposable {
  readonly url: string;
  readonly options: {
    readonly bucket: string;
    readonly region: string;
    readonly endpoint: string;
  } & typeof CREDENTIALS;
  names(prefix?: string): Promise<string[]>;
}

const SUFFIX = "._S3rver_object";

export async function startS3(): Promise<S3Server> {
  const directory = await Deno.makeTempDir();
  const bucket = "archive";
  const server = new S3rver({
    ...{ port: 0, address: "127.0.0.1", silent: true, directory },
    configureBuckets: [{ name: bucket, configs: [] }],
  });
  const { port } = await server.run();
  const url = `http://127.0.0.1:${port}`;
  const filesIn = async (folder: string): Promise<string[]> => {
    const found: string[] = [];
    for await (const { name, isDirectory } of Deno.readDir(folder)) {
      if (isDirectory) found.push(...(await filesIn(join(folder, name))).map((path) => `${name}/${path}`));
      else if (name.endsWith(SUFFIX)) found.push(name.slice(0, -SUFFIX.length));
    }
    return found;
  };
  return {
    url,
    options: { bucket, region: "us-east-1", endpoint: url, ...CREDENTIALS },
    names: async (prefix = "") =>
      (await filesIn(join(directory, bucket))).filter((name) => name.startsWith(prefix)).sort(),
    async [Symbol.asyncDispose]() {
      await server.close();
      await Deno.remove(directory, { recursive: true });
    },
  };
}
