import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { z } from 'zod';
import { toStructuralSchema } from './structural.ts';

describe('toStructuralSchema', () => {
  it('a structural schema keeps the keywords that the API server supports', () => {
    const schema = z.object({
      a: z.string().min(1).max(5).regex(/^a/).meta({ description: 'an a' }),
      b: z.enum(['p', 'q']).default('p'),
      c: z.array(z.string()).max(3).meta({ 'x-kubernetes-list-type': 'set' }).exactOptional(),
      d: z.record(z.string(), z.string()).exactOptional(),
    });
    assert.deepEqual(toStructuralSchema(schema), {
      type: 'object',
      required: ['a'],
      properties: {
        a: { type: 'string', minLength: 1, maxLength: 5, pattern: '^a', description: 'an a' },
        b: { type: 'string', enum: ['p', 'q'], default: 'p' },
        c: { type: 'array', maxItems: 3, items: { type: 'string' }, 'x-kubernetes-list-type': 'set' },
        d: { type: 'object', additionalProperties: { type: 'string' } },
      },
    });
  });

  it('a structural schema drops the limits for safe integers of JavaScript and keeps the limits that the schema sets', () => {
    assert.deepEqual(
      toStructuralSchema(z.object({ a: z.int().exactOptional(), b: z.int().min(0).max(9).exactOptional() })),
      {
        type: 'object',
        properties: { a: { type: 'integer' }, b: { type: 'integer', minimum: 0, maximum: 9 } },
      },
    );
  });

  it('an integer-or-string and an object with any fields become x-kubernetes keywords of the structural schema', () => {
    const schema = z.object({
      port: z.union([z.int(), z.string()]).exactOptional(),
      free: z.looseObject({}).exactOptional(),
    });
    assert.deepEqual(toStructuralSchema(schema), {
      type: 'object',
      properties: {
        port: { 'x-kubernetes-int-or-string': true },
        free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
      },
    });
  });

  it('if a schema has no structural equivalent, the error names the path of the field', () => {
    const union = z.object({ a: z.array(z.union([z.object({ x: z.string() }), z.string()])) });
    assert.throws(() => toStructuralSchema(union), /schema at \/a\/\[\]: .*"anyOf"/);
    assert.throws(() => toStructuralSchema(z.object({ a: z.strictObject({ b: z.string() }) })), /schema at \/a: /);
    assert.throws(() => toStructuralSchema(z.object({ a: z.unknown() })), /schema at \/a: no type/);
  });
});
