import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import type { z } from 'zod';
import type { SecretMirrorSpec, SecretMirrorStatus } from '../../src/controllers/mirrors/api.ts';
import type { secretMirrorSpec, secretMirrorStatus } from './secret-mirror.ts';
import { secretMirrorDefinition } from './secret-mirror-definition.ts';

/** `T` with everything readonly, as the program's types are. */
type Readonlyed<T> = T extends readonly (infer Item)[]
  ? readonly Readonlyed<Item>[]
  : T extends object
    ? { readonly [Key in keyof T]: Readonlyed<T[Key]> }
    : T;
/** True for types that are the same to the last optional field; assignable both ways is not enough to tell. */
type Same<A, B> = Identity<Readonlyed<A>> extends Identity<Readonlyed<B>> ? true : false;
/** The compiler takes two of these for one only if it cannot tell their `A` apart. */
// oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the parameter is what makes it compare so
type Identity<A> = <T>() => T extends A ? 1 : 2;

describe('the program’s types', () => {
  it('are those of the schema', () => {
    const spec: Same<z.input<typeof secretMirrorSpec>, SecretMirrorSpec> = true;
    const status: Same<z.input<typeof secretMirrorStatus>, SecretMirrorStatus> = true;
    assert.ok(spec && status, 'checked by the compiler');
  });
});

describe('the definition', () => {
  const { spec } = secretMirrorDefinition as { spec: Record<string, unknown> };

  it('has the names of the original, and no others', () => {
    assert.deepEqual(spec['names'], {
      kind: 'SecretMirror',
      listKind: 'SecretMirrorList',
      plural: 'secretmirrors',
      singular: 'secretmirror',
    });
    assert.deepEqual(spec['conversion'], { strategy: 'None' });
  });

  it('stores v1alpha2 and serves both versions, each with its status', () => {
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
