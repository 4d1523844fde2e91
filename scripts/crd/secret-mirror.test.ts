import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { secretMirrorDefinition } from './secret-mirror-definition.ts';

describe('the CustomResourceDefinition of SecretMirror', () => {
  const { spec } = secretMirrorDefinition as { spec: Record<string, unknown> };

  it('the CRD of SecretMirror has the kind and plural of the original, a short name and no conversion', () => {
    assert.deepEqual(spec['names'], {
      kind: 'SecretMirror',
      listKind: 'SecretMirrorList',
      plural: 'secretmirrors',
      singular: 'secretmirror',
      shortNames: ['sm'],
    });
    assert.deepEqual(spec['conversion'], { strategy: 'None' });
  });

  it('the CRD of SecretMirror stores v1alpha2 and serves v1alpha1 and v1alpha2, each with a status subresource', () => {
    const versions = spec['versions'] as { name: string; served: boolean; storage: boolean; subresources: unknown }[];
    assert.deepEqual(
      versions.map(({ name, served, storage, subresources }) => ({ name, served, storage, subresources })),
      [
        { name: 'v1alpha1', served: true, storage: false, subresources: { status: {} } },
        { name: 'v1alpha2', served: true, storage: true, subresources: { status: {} } },
      ],
    );
  });
});
