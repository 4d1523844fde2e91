/** Tests the JSON Schemas of the reports. (Scenario tests validate real reports with them.) */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import { reportSchemas } from './schemas.ts';

it('the JSON Schemas of the reports accept a report with additional fields', () => {
  for (const text of reportSchemas().values()) assert.ok(!text.includes('additionalProperties'));
});
