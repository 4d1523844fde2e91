/**
 * Writes images as an OCI image layout (image-spec v1.1), and as archives for `docker load`. The same input always
 * gives the same bytes, because all files in an archive are sorted, belong to root, and have the same time.
 */
import { createHash } from 'node:crypto';
import { chmodSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { gzipSync } from 'node:zlib';

import { RUNTIME } from './config.ts';
import { execute } from './execute.ts';
import type { Architecture } from './inputs.ts';

/** Describes a blob of the layout: digest, type and size in bytes. */
interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
  readonly platform?: { readonly os: string; readonly architecture: string };
  readonly annotations?: Readonly<Record<string, string>>;
}

export interface ImageManifest {
  readonly descriptor: Descriptor;
  /** What `docker load` needs to know of the image: its entry in the `manifest.json` of the archive. */
  readonly docker: {
    readonly Config: string;
    readonly RepoTags: readonly string[];
    readonly Layers: readonly string[];
  };
}

/** The time that all files and the image get, in seconds since 1970: `SOURCE_DATE_EPOCH`, otherwise 0. */
const EPOCH = Number(process.env['SOURCE_DATE_EPOCH'] ?? 0);
const CREATED = `${new Date(EPOCH * 1000).toISOString().slice(0, 19)}Z`;
const TYPE = 'application/vnd.oci.image';

/**
 * Adds an image to the OCI layout in the folder `layout`. Changes the modes of the files in `trees` to 644 or 755.
 * @param trees - folders of the layers, the lowest layer first
 * @param tag - name and tag, for example `keyferry:0.1.0`
 */
export function addImage(
  layout: string,
  architecture: Architecture,
  trees: readonly string[],
  tag: string,
  labels: Readonly<Record<string, string>>,
): ImageManifest {
  const layers = trees.map((tree) => addLayer(layout, tree));
  const config = addBlob(layout, `${TYPE}.config.v1+json`, {
    created: CREATED,
    architecture,
    os: 'linux',
    config: {
      ...RUNTIME,
      Labels: labels,
    },
    rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => diffId) },
    history: layers.map(() => ({ created: CREATED, created_by: 'npm run image' })),
  });
  const manifest = addBlob(layout, `${TYPE}.manifest.v1+json`, {
    schemaVersion: 2,
    mediaType: `${TYPE}.manifest.v1+json`,
    config,
    layers: layers.map(({ descriptor }) => descriptor),
    annotations: labels,
  });
  return {
    descriptor: { ...manifest, platform: { os: 'linux', architecture } },
    docker: {
      Config: blobPath(config.digest),
      RepoTags: [tag],
      Layers: layers.map(({ descriptor }) => blobPath(descriptor.digest)),
    },
  };
}

/** Writes the index of the OCI layout. It joins the images of all architectures under one tag. */
export function writeIndex(
  layout: string,
  images: readonly ImageManifest[],
  version: string,
  labels: Readonly<Record<string, string>>,
): void {
  const index = addBlob(layout, `${TYPE}.index.v1+json`, {
    schemaVersion: 2,
    mediaType: `${TYPE}.index.v1+json`,
    manifests: images.map(({ descriptor }) => descriptor),
    annotations: labels,
  });
  const annotations = { 'org.opencontainers.image.ref.name': version };
  writeFileSync(path.join(layout, 'index.json'), json({ schemaVersion: 2, manifests: [{ ...index, annotations }] }));
  writeFileSync(path.join(layout, 'oci-layout'), json({ imageLayoutVersion: '1.0.0' }));
}

/** Copies one image of the layout into the archive `file`, for `docker load`. */
export function writeDockerArchive(layout: string, image: ImageManifest, file: string): void {
  const manifest = path.join(layout, 'manifest.json');
  writeFileSync(manifest, json([image.docker]));
  chmodSync(manifest, 0o644);
  execute('tar', [...tarFlags(file), 'manifest.json', image.docker.Config, ...image.docker.Layers], layout);
  rmSync(manifest);
}

function addLayer(layout: string, tree: string): { descriptor: Descriptor; diffId: string } {
  normalizeModes(tree);
  const archive = `${tree}.tar`;
  execute('tar', [...tarFlags(archive), ...readdirSync(tree).toSorted()], tree);
  const content = readFileSync(archive);
  rmSync(archive);
  const descriptor = addBlob(layout, `${TYPE}.layer.v1.tar+gzip`, gzipSync(content, { level: 6 }));
  return { descriptor, diffId: sha256(content) };
}

/**
 * Sets the modes of all files to 644 or 755, because otherwise the umask of the build would change the bytes of the
 * image. A sticky folder (/tmp) keeps its mode.
 */
function normalizeModes(tree: string): void {
  for (const name of ['.', ...(readdirSync(tree, { recursive: true }) as string[])]) {
    const file = path.join(tree, name);
    const stats = lstatSync(file);
    const isSticky = (stats.mode & 0o1000) !== 0;
    if (stats.isSymbolicLink() || isSticky) continue;
    chmodSync(file, (stats.mode & 0o111) === 0 ? 0o644 : 0o755);
  }
}

function tarFlags(file: string): string[] {
  return [
    '-cf',
    file,
    '--format=ustar',
    '--sort=name',
    `--mtime=@${EPOCH}`,
    '--owner=0',
    '--group=0',
    '--numeric-owner',
  ];
}

function addBlob(layout: string, mediaType: string, content: Buffer | object): Descriptor {
  const bytes = Buffer.isBuffer(content) ? content : Buffer.from(json(content));
  const digest = sha256(bytes);
  const file = path.join(layout, blobPath(digest));
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, bytes, { mode: 0o644 });
  return { mediaType, digest, size: bytes.length };
}

function blobPath(digest: string): string {
  return `blobs/${digest.replace(':', '/')}`;
}

function sha256(bytes: Buffer): string {
  return `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
}

function json(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}
