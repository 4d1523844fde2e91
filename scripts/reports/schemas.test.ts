/** The JSON Schemas of the output. Scenarios validate the output itself. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { reportSchemas } from './schemas.ts';

it('output with an additional field is valid', () => {
  for (const text of reportSchemas().values()) assert.ok(!text.includes('additionalProperties'));
});
