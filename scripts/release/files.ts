/**
 * Writes the chart and the manifests of a release. The image name in `deploy/` has no registry; a release adds its
 * registry.
 */
import { createHash } from 'node:crypto';
import { cpSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { parseDocument, stringify } from 'yaml';

const ROOT = path.join(import.meta.dirname, '..', '..');
const CHART = path.join(ROOT, 'deploy/helm/keyferry');
const CRD_FILE = 'secretmirrors-crd.yaml';

export interface Release {
  /** The Git tag of the release, for example `v1.2.3`. */
  readonly tag: string;
  /** The name of the image with its registry, without its tag: `ghcr.io/keyferry/keyferry`. */
  readonly image: string;
  /** Whom the chart names, for example `Ann Example <ann@example.com>`. */
  readonly maintainer: string;
  /** The packed npm package, which krew installs as a plugin of kubectl. */
  readonly npmPackage: string;
}

/**
 * Replaces the content of `folder` by the folder `chart` and the files `keyferry.yaml`, `secretmirrors-crd.yaml` and `krew.yaml`.
 * @throws Error if package.json and chart do not have the version of the tag, or if `image` or `maintainer` is not valid
 */
export function writeReleaseFiles({ tag, image, maintainer, npmPackage }: Release, folder: string): void {
  // Registries reject upper case letters in image names, but a GitHub user or organization may have such a name.
  if (!/^[a-z0-9.-]+(:\d+)?(\/[a-z0-9._-]+)+$/.test(image)) throw new Error(`${image} is not the name of an image`);
  const { name, email } = /^(?<name>[^<>]+) <(?<email>[^<>@ ]+@[^<>@ ]+)>$/.exec(maintainer)?.groups ?? {};
  if (name === undefined || email === undefined) throw new Error(`${maintainer} is not NAME <ADDRESS> of a maintainer`);
  const version = tag.replace(/^v/, '');
  const chartFile = parseDocument(readFileSync(path.join(CHART, 'Chart.yaml'), 'utf8'));
  const chart = chartFile.toJS() as { version: string; appVersion: string };
  const npm = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { version: string };
  for (const [file, found] of [
    ['package.json', npm.version],
    ['Chart.yaml', chart.version],
    ['Chart.yaml (appVersion)', chart.appVersion],
  ]) {
    if (found !== version) throw new Error(`the tag is ${tag}, and the version in ${file} is ${found}`);
  }

  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  cpSync(CHART, path.join(folder, 'chart'), { recursive: true });
  chartFile.set('maintainers', [{ name, email }]);
  const images = [{ name: 'keyferry', image: `${image}:${version}`, platforms: ['linux/amd64', 'linux/arm64'] }];
  chartFile.setIn(['annotations', 'artifacthub.io/images'], stringify(images));
  writeFileSync(path.join(folder, 'chart/Chart.yaml'), chartFile.toString({ lineWidth: 0 }));
  // A parent chart can replace the registry alone.
  const [registry = ''] = image.split('/', 1);
  const values = replaceOnce(
    'deploy/helm/keyferry/values.yaml',
    "  registry: ''\n  # Required: no image is published yet.\n  repository: ''\n",
    `  registry: ${registry}\n  repository: ${image.slice(registry.length + 1)}\n`,
  );
  writeFileSync(path.join(folder, 'chart/values.yaml'), values);
  const manifest = replaceOnce('deploy/keyferry.yaml', `"keyferry:${version}"`, `"${image}:${version}"`);
  writeFileSync(path.join(folder, 'keyferry.yaml'), manifest);
  cpSync(path.join(ROOT, 'deploy/crds/mirrors.kts.studio_secretmirrors.yaml'), path.join(folder, CRD_FILE));
  const plugin = parseDocument(readFileSync(path.join(import.meta.dirname, 'krew.yaml'), 'utf8'));
  plugin.setIn(['spec', 'version'], `v${version}`);
  const where = ['spec', 'platforms', 0];
  plugin.setIn([...where, 'uri'], `https://registry.npmjs.org/keyferry/-/keyferry-${version}.tgz`);
  plugin.setIn([...where, 'sha256'], createHash('sha256').update(readFileSync(npmPackage)).digest('hex'));
  writeFileSync(path.join(folder, 'krew.yaml'), plugin.toString({ lineWidth: 0 }));
}

function replaceOnce(file: string, before: string, after: string): string {
  const parts = readFileSync(path.join(ROOT, file), 'utf8').split(before);
  if (parts.length !== 2) throw new Error(`${file} must have once: ${before}`);
  return parts.join(after);
}
