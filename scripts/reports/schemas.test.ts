/** Compares the schemas with the types of the output. Scenarios validate the output itself. */
import assert from 'node:assert/strict';
import { it } from 'node:test';
import type { z } from 'zod';
import type { Explanation } from '../../src/commands/explain/report.ts';
import type { PlanReport } from '../../src/commands/plan/rows.ts';
import type { StatusReport } from '../../src/commands/status/report.ts';
import type { VersionReport } from '../../src/cli/version-report.ts';
import {
  type explainSchema,
  type planSchema,
  reportSchemas,
  type statusSchema,
  type versionSchema,
} from './schemas.ts';

type DeepReadonly<T> = T extends object ? { readonly [K in keyof T]: DeepReadonly<T[K]> } : T;
type Same<A, B> = [A] extends [B] ? ([B] extends [A] ? true : never) : never;
const isSame: readonly [
  Same<DeepReadonly<z.infer<typeof statusSchema>>, StatusReport>,
  Same<DeepReadonly<z.infer<typeof planSchema>>, PlanReport>,
  Same<DeepReadonly<z.infer<typeof explainSchema>>, Explanation>,
  Same<DeepReadonly<z.infer<typeof versionSchema>>, VersionReport>,
] = [true, true, true, true];

it('the schemas have the fields of the types', () => {
  assert.ok(isSame.every(Boolean));
});

it('output with an additional field is valid', () => {
  for (const text of reportSchemas().values()) assert.ok(!text.includes('additionalProperties'));
});
