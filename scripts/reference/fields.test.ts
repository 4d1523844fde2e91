import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rowsOf } from './fields.ts';

test('a field has a row with its type, default, description, need and errors, and so have the fields inside', () => {
  const schema = {
    type: 'object',
    properties: {
      kind: { type: 'string' },
      spec: {
        type: 'object',
        required: ['mode'],
        properties: {
          mode: { type: 'string', enum: ['a', 'b'], default: 'a', description: 'The mode.' },
          keys: {
            type: 'array',
            items: { type: 'object', properties: { from: { type: 'string' } } },
            'x-kubernetes-validations': [{ rule: 'true', message: 'two keys are equal' }],
          },
          labels: { type: 'object', additionalProperties: { type: 'string' } },
        },
      },
    },
  };
  assert.deepEqual(rowsOf(schema, ''), [
    ['`spec`', 'object', '', ''],
    ['`spec.mode`', '`a`, `b`', '`"a"`', 'The mode. Required.'],
    ['`spec.keys`', 'list of object', '', 'Errors: two keys are equal.'],
    ['`spec.keys[].from`', 'string', '', ''],
    ['`spec.labels`', 'map of string', '', ''],
  ]);
});
