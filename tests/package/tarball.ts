/**
 * Tarballs as npm has them: everything is in the folder `package`. The same files make the same
 * bytes, whoever packs them and when.
 *
 * @module
 */

import { chmod, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { create, extract, list } from "tar";

/** The text of each file by its path in the package, such as "core/store.js". */
export type Files = ReadonlyMap<string, string>;

const prefix = "package/";
/** The time that npm gives every file. */
const mtime = new Date("1985-10-26T08:15:00Z");

/** Reads a tarball. */
export async function readTarball(file: string): Promise<Files> {
  const read: Promise<[string, string]>[] = [];
  await list({
    file,
    onReadEntry(entry) {
      const { path } = entry;
      if (!path.startsWith(prefix) || entry.type !== "File") {
        throw new Error(`Cannot read ${file}: received the ${entry.type} ${path}`);
      }
      read.push(entry.concat().then((text) => [path.slice(prefix.length), text.toString()]));
    },
  });
  return new Map(await Promise.all(read));
}

/** Writes a tarball. */
export async function writeTarball(file: string, files: Files): Promise<void> {
  await withTemporaryFolder(async (cwd) => {
    for (const [path, text] of files) {
      await mkdir(dirname(join(cwd, path)), { recursive: true });
      await writeFile(join(cwd, path), text);
      await chmod(join(cwd, path), 0o644);
    }
    const paths = [...files.keys()].sort();
    await create({ file, cwd, prefix, gzip: true, portable: true, mtime }, paths);
  });
}

/** Puts the files of a tarball into an empty folder. */
export async function unpackTarball(file: string, folder: string): Promise<void> {
  await mkdir(folder, { recursive: true });
  await extract({ file, cwd: folder, strip: 1 });
}

/** Lends an empty folder. */
export async function withTemporaryFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "fencepost-package-"));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
