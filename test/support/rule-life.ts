import assert from 'node:assert/strict';
import type { Controller } from '../../src/copy/engine/controller.ts';
import type { RuleStatus } from '../../src/copy/engine/life/condition.ts';
import { RuleLife, type RuleLifeOptions } from '../../src/copy/engine/life/rule-life.ts';
import type { RuleObject } from '../../src/copy/engine/life/rule-store.ts';
import { systemClock } from '../../src/runtime/clock.ts';
import { nullLog } from './null-log.ts';

const unused = (): never => assert.fail('not used');

/** The life of a controller's rules. Requests and events that the test does not expect fail it. */
export function ruleLife<Rule extends RuleObject, Status extends RuleStatus>(
  controller: Controller<Rule, Status>,
  options: Partial<RuleLifeOptions> = {},
): RuleLife<Rule, Status> {
  return new RuleLife(controller, {
    api: { cluster: 'c', request: unused, stream: unused },
    clock: systemClock,
    log: nullLog,
    deletionTimeoutMs: 60_000,
    recordEvent: unused,
    enqueueStatus: () => undefined,
    isOutdated: async () => await Promise.resolve(false),
    ...options,
  });
}
