/** Tests of the JSON Schemas of reports. The scenarios validate the reports themselves. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { reportSchemas } from './schemas.ts';

it('the JSON Schemas of reports allow additional fields', () => {
  for (const text of reportSchemas().values()) assert.ok(!text.includes('additionalProperties'));
});
