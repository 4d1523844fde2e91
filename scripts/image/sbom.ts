/**
 * Makes the SBOM of the image in CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/). It contains no time of creation:
 * the same image always has the same SBOM.
 */
import type { BundledPackage } from '../bundled-packages.ts';
import { imageLabels, type ImageSource } from './config.ts';
import type { DebianPin } from './debian.ts';
import pinned from './debian-packages.json' with { type: 'json' };
import { nodePin, type Architecture } from './inputs.ts';

interface Component {
  readonly type: 'application' | 'library';
  readonly name: string;
  readonly version: string;
  readonly purl: string;
  readonly hashes?: readonly { readonly alg: string; readonly content: string }[];
}

/** @param bundled - the npm packages in the bundle */
export function imageSbom(
  architecture: Architecture,
  source: ImageSource,
  bundled: readonly BundledPackage[],
): Readonly<Record<string, unknown>> {
  const labels = Object.entries(imageLabels(source)).map(([name, value]) => ({ name, value }));
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      component: {
        type: 'container',
        name: 'keyferry',
        version: source.version,
        properties: [{ name: 'architecture', value: architecture }, ...labels],
      },
    },
    components: [
      ...Object.entries<DebianPin>(pinned.packages[architecture]).map(([name, pin]) => debian(architecture, name, pin)),
      node(architecture),
      ...bundled.map(npm),
    ],
  };
}

/** The entry for a Debian package. Its package URL has the type `deb` (https://github.com/package-url/purl-spec). */
function debian(architecture: Architecture, name: string, { version, sha256 }: DebianPin): Component {
  const id = `${encodeURIComponent(name)}@${encodeURIComponent(version)}`;
  return {
    type: 'library',
    name,
    version,
    purl: `pkg:deb/debian/${id}?arch=${architecture}&distro=${pinned.release}`,
    hashes: [{ alg: 'SHA-256', content: sha256 }],
  };
}

function node(architecture: Architecture): Component {
  const { version } = nodePin(architecture);
  return { type: 'application', name: 'node', version, purl: `pkg:generic/node@${version}` };
}

function npm({ name, version }: BundledPackage): Component {
  return { type: 'library', name, version, purl: `pkg:npm/${name.replace('@', '%40')}@${version}` };
}
