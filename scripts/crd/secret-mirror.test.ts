import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { z } from 'zod';
import type { Same } from './same-type.ts';
import type { SecretMirrorSpec, SecretMirrorStatus } from '../../src/controllers/mirrors/api.ts';
import type { secretMirrorSpec, secretMirrorStatus } from './secret-mirror.ts';
import { secretMirrorDefinition } from './secret-mirror-definition.ts';

describe('the types of SecretMirror', () => {
  it('the TypeScript types of SecretMirror are identical to the types of its CRD schema', () => {
    const spec: Same<z.input<typeof secretMirrorSpec>, SecretMirrorSpec> = true;
    const status: Same<z.input<typeof secretMirrorStatus>, SecretMirrorStatus> = true;
    assert.ok(spec && status, 'checked by the compiler');
  });
});

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
