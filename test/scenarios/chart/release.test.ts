/** Chart and manifest in the form in which a release publishes them: with the image of the release. */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { after, before, it } from 'node:test';

import { writeReleaseFiles } from '../../../scripts/release/files.ts';
import { Reaper } from '../../servers/reaper.ts';
import { helm } from './helm.ts';

const ROOT = path.join(import.meta.dirname, '../../..');
const IMAGE = 'registry.example.com:5000/team/keyferry';
const { version } = JSON.parse(readFileSync(path.join(ROOT, 'package.json'), 'utf8')) as { version: string };

let folder: string;
before(async () => (folder = await Reaper.shared().temporaryFolder('keyferry-release-')));
after(async () => await Reaper.shared().removeFolder(folder));

it('the chart and the manifest that a release publishes name the image of the release', async () => {
  const release = path.join(folder, 'release');
  writeReleaseFiles({ tag: `v${version}`, image: IMAGE }, release);
  const packaged = await helm(['package', path.join(release, 'chart'), `--destination=${folder}`]);
  assert.equal(packaged.code, 0, packaged.stderr);
  const args = ['template', 'keyferry', path.join(folder, `keyferry-${version}.tgz`), '--kube-version=1.36.0'];
  const { stdout } = await helm(args);
  const image = `image: "${IMAGE}:${version}"`;
  assert.ok(stdout.includes(image));
  const ours = readFileSync(path.join(ROOT, 'deploy/keyferry.yaml'), 'utf8');
  const manifest = readFileSync(path.join(release, 'keyferry.yaml'), 'utf8');
  assert.equal(manifest, ours.replace(`image: "keyferry:${version}"`, image));
  assert.ok(manifest.includes(image));
  const crd = readFileSync(path.join(release, 'secretmirrors-crd.yaml'), 'utf8');
  assert.match(crd, /^kind: CustomResourceDefinition$/m);
  assert.doesNotMatch(manifest, /CustomResourceDefinition/);
});

it('a release is refused if its tag is of another version, or no registry accepts its image name', () => {
  assert.throws(() => writeReleaseFiles({ tag: 'v999.0.0', image: IMAGE }, folder), /the version in package\.json is/);
  for (const image of ['ghcr.io/Acme/keyferry', 'keyferry', `${IMAGE}:1.0.0`, `x/y"\nz: "`]) {
    assert.throws(() => writeReleaseFiles({ tag: `v${version}`, image }, folder), /is not the name of an image/);
  }
});
