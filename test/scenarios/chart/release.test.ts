/** Chart and manifest in the form in which a release publishes them: with the image of the release. */
import assert from 'node:assert/strict';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, it } from 'node:test';
import { parse } from 'yaml';

import { writeReleaseFiles } from '../../../scripts/release/files.ts';
import { Reaper } from '../../servers/reaper.ts';
import { helm } from './helm.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
const IMAGE = 'registry.example.com:5000/team/keyferry';
const maintainer = 'Ann Example <ann@example.com>';
const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { version: string };

let folder: string;
let npmPackage: string;
before(async () => {
  folder = await Reaper.shared().temporaryFolder('keyferry-release-');
  npmPackage = path.join(folder, 'npm.tgz');
  writeFileSync(npmPackage, 'the packed package');
});
after(async () => await Reaper.shared().removeFolder(folder));

it('the chart and the manifest that a release publishes name the image of the release', async () => {
  const release = path.join(folder, 'release');
  writeReleaseFiles({ tag: `v${version}`, image: IMAGE, maintainer, npmPackage }, release);
  const packaged = await helm(['package', path.join(release, 'chart'), `--destination=${folder}`]);
  assert.equal(packaged.code, 0, packaged.stderr);
  const args = ['template', 'keyferry', path.join(folder, `keyferry-${version}.tgz`), '--kube-version=1.36.0'];
  const { stdout } = await helm(args);
  const image = `image: "${IMAGE}:${version}"`;
  assert.ok(stdout.includes(image));
  const { stdout: elsewhere } = await helm([...args, '--set=global.imageRegistry=mirror.example.com']);
  assert.ok(elsewhere.includes(`image: "mirror.example.com/team/keyferry:${version}"`));
  const chart = parse(readFileSync(path.join(release, 'chart/Chart.yaml'), 'utf8'));
  assert.deepEqual(chart.maintainers, [{ name: 'Ann Example', email: 'ann@example.com' }]);
  const [only] = parse(chart.annotations['artifacthub.io/images']);
  const changes = parse(chart.annotations['artifacthub.io/changes']);
  const kinds = new Set(['added', 'changed', 'deprecated', 'removed', 'fixed', 'security']);
  assert.ok(changes.length > 0 && changes.every(({ kind }: { kind: string }) => kinds.has(kind)));
  assert.deepEqual([only.image, only.platforms], [`${IMAGE}:${version}`, ['linux/amd64', 'linux/arm64']]);
  const ours = readFileSync(path.join(ROOT, 'deploy/keyferry.yaml'), 'utf8');
  const manifest = readFileSync(path.join(release, 'keyferry.yaml'), 'utf8');
  assert.equal(manifest, ours.replace(`image: "keyferry:${version}"`, image));
  assert.ok(manifest.includes(image));
  const crd = readFileSync(path.join(release, 'secretmirrors-crd.yaml'), 'utf8');
  assert.match(crd, /^kind: CustomResourceDefinition$/m);
  assert.doesNotMatch(manifest, /CustomResourceDefinition/);
  const { spec } = parse(readFileSync(path.join(release, 'krew.yaml'), 'utf8'));
  const [{ uri, sha256, bin }] = spec.platforms;
  assert.deepEqual(
    [spec.version, uri, sha256],
    [
      `v${version}`,
      `https://registry.npmjs.org/keyferry/-/keyferry-${version}.tgz`,
      '49c8bed5f423eed8c3b5e292dd43c01e989c30aca49df4818b990b3d95b89aa9',
    ],
  );
  assert.ok(existsSync(path.join(ROOT, bin)), bin);
});

it('a release is refused if its tag is of another version, no registry accepts its image name, or it has no maintainer', () => {
  assert.throws(
    () => writeReleaseFiles({ tag: 'v999.0.0', image: IMAGE, maintainer, npmPackage }, folder),
    /the version in package\.json is/,
  );
  for (const image of ['ghcr.io/Acme/keyferry', 'keyferry', `${IMAGE}:1.0.0`, `x/y"\nz: "`]) {
    assert.throws(
      () => writeReleaseFiles({ tag: `v${version}`, image, maintainer, npmPackage }, folder),
      /is not the name of an image/,
    );
  }
  for (const nobody of ['', 'Ann', 'ann@example.com', 'Ann <ann>']) {
    const release = { tag: `v${version}`, image: IMAGE, maintainer: nobody, npmPackage };
    assert.throws(() => writeReleaseFiles(release, folder), /is not NAME <ADDRESS> of a maintainer/);
  }
});
