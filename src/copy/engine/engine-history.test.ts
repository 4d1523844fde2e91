/**
 * Property test of the engine with random changes of rules and copies. When the engine has nothing more to do, a second
 * engine starts with the same rules and objects, and must change nothing. This shows that no decision waits for a
 * restart.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { ManualClock } from '../../../test/support/manual-clock.ts';
import { stubBackend } from '../../../test/support/stub-backend.ts';
import type { TargetWriter } from './backend.ts';
import { Engine } from './engine.ts';
import { userCause } from '../model/cause.ts';
import { claimAll, type DesiredState, type Shape, type SourceView, leavingClaims } from '../model/claim.ts';
import type { ObjectKey, ResourceKey, RuleKey } from '../model/keys.ts';
import { observe, type Observed } from '../model/observed.ts';
import { decide, type FactSource, type TargetState } from '../plan/decide.ts';
import type { Evaluation } from '../model/rule-set.ts';
import { lifeOf, type WholeLife } from '../../../test/support/life.ts';
import { asKey, asKeys } from '../../../test/support/keys.ts';

const TARGETS: readonly ObjectKey[] = asKeys(['c:Secret/a/x', 'c:Secret/b/x', 'c:Secret/c/x']);
const RULES: readonly RuleKey[] = [asKey('rules:n/0'), asKey('rules:n/1')];
const NO_TARGET: ObjectKey = asKey('');
const NO_RULE: RuleKey = asKey('');
const OWNER = 'owner';
const RETAIN = 'retain';
const PRESENT: SourceView = { state: 'present', version: '1', labels: {}, annotations: {} };
const CONTENT = { digest: 'd', keys: 'k', type: 'Opaque' };

/** The spec of a rule in this test. With the policy `invalid`, the rule leaves its copies as they are. */
type Spec = { readonly targets: readonly number[]; readonly policy: 'delete' | 'retain' | 'invalid' };

class CopyShape implements Shape {
  readonly id: string;
  readonly #annotations: Readonly<Record<string, string | null>>;

  constructor(rule: RuleKey, retain: boolean) {
    this.id = `${rule} ${retain}`;
    this.#annotations = { [OWNER]: rule, [RETAIN]: retain ? 'true' : null };
  }

  desiredState(): DesiredState {
    return { kind: 'be', labels: {}, annotations: this.#annotations, bookkeeping: {}, data: 'source' };
  }

  heldVersion(): undefined {
    return undefined;
  }
}

/** The rules and objects on the server. They stay when a process ends. */
class Cluster {
  readonly specs = new Map<RuleKey, { readonly version: string; readonly spec: Spec }>();
  readonly objects = new Map<ResourceKey, Observed>();
  #version = 0;

  next(): string {
    return String((this.#version += 1));
  }

  get text(): string {
    return JSON.stringify([...this.objects].sort(([a], [b]) => (a < b ? -1 : 1)));
  }
}

/** A process of Keyferry, with the real engine, claim book and plan. */
class Process {
  readonly #clock = new ManualClock();
  readonly #cluster: Cluster;
  readonly engine: Engine;

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    this.engine = new Engine({
      clock: this.#clock,
      onError: (_loop, _key, error) => {
        throw error;
      },
    });
    const backend = stubBackend('c');
    const writer: TargetWriter = {
      ...backend.targetsOf(asKey('')),
      reconcile: async (target: ObjectKey, signal) => await this.#reconcile(target, signal),
    };
    this.engine.backends.add({ ...backend, targetsOf: () => writer });
    this.engine.add(lifeOf(reconcilerOn(cluster)));
    for (const [key, object] of cluster.objects) this.engine.objectChanged(asKey(key), undefined, object);
    for (const rule of cluster.specs.keys()) this.engine.enqueueRule(rule);
  }

  /** Advances the clock until all queues of rules and targets are empty. */
  async settle(): Promise<void> {
    const busy = (): boolean =>
      this.engine.queues
        .filter(({ name }) => name !== 'status')
        .some(({ queue }) => {
          const { depth, delayed, running } = queue.metrics();
          return depth + delayed + running > 0;
        });
    for (let seconds = 0; seconds === 0 || busy(); seconds += 1) {
      assert.ok(seconds < 60, 'there is always something to do');
      await this.#clock.advance(1000);
    }
  }

  /** Changes an object on the server, and reports the change to the engine. @param own this process made the change */
  put(target: ObjectKey, object: Observed | undefined, own = false): void {
    const before = this.#cluster.objects.get(target);
    if (object === undefined) this.#cluster.objects.delete(target);
    else this.#cluster.objects.set(target, object);
    this.engine.objectChanged(target, before, object, own);
  }

  async #reconcile(target: ObjectKey, signal: AbortSignal): Promise<{ requeueAfterMs: number } | undefined> {
    const { plan } = await decide(target, this.#facts(), { state: (key) => this.#state(key), read: unread }, signal);
    const before = this.#cluster.objects.get(target);
    if (plan.do === 'later') return { requeueAfterMs: 1000 };
    if (plan.do === 'create' || plan.do === 'update') {
      const patch = Object.entries({ ...before?.annotations, ...plan.desired.annotations });
      const annotations = Object.fromEntries(patch.filter((entry): entry is [string, string] => entry[1] !== null));
      this.put(target, objectAt(target, annotations, this.#cluster.next()), true);
    } else if (plan.do === 'delete') {
      this.put(target, undefined);
    }
    return undefined;
  }

  #state(target: ResourceKey): TargetState {
    const observed = this.#cluster.objects.get(target);
    const held = observed && { version: observed.resourceVersion, fingerprint: CONTENT };
    const presence = observed === undefined ? 'absent' : 'present';
    return { presence, observed, held, type: CONTENT.type, goingAway: false, cannotUpdate: false };
  }

  #facts(): FactSource {
    const sources = { view: () => PRESENT, fingerprint: () => CONTENT, load: unread };
    const { claims, cycles, orphanActionOf, mayBeWanted } = this.engine;
    const rest = { hasNamespace: () => true, now: () => this.#clock.now() };
    return { claims, cycles, sources, orphanActionOf, mayBeWanted, ...rest };
  }
}

const unread = async (): Promise<never> => await Promise.reject(new Error('nothing has to be read'));

function objectAt(target: ResourceKey, annotations: Record<string, string>, resourceVersion: string): Observed {
  const [namespace = '', name = ''] = target.slice('c:Secret/'.length).split('/');
  return observe({ uid: target, name, namespace, resourceVersion, creationTimestamp: '', annotations });
}

function reconcilerOn({ specs }: Cluster): Partial<WholeLife> {
  return {
    evaluate(rule, view): Evaluation | undefined {
      const found = specs.get(rule);
      if (found === undefined) return undefined;
      const { version, spec } = found;
      const owner = { key: rule, title: rule, rank: rule };
      if (spec.policy === 'invalid') {
        return {
          owner,
          version,
          claims: leavingClaims(owner, view.ownedBy(rule), userCause('Invalid', '')),
          sources: [],
        };
      }
      const shape = new CopyShape(rule, spec.policy === 'retain');
      const targets = spec.targets.map((index) => TARGETS[index] ?? NO_TARGET);
      const claims = claimAll(targets, { owner, mode: 'own', source: asKey('c:Secret/s/x'), shape });
      return { owner, version, claims, sources: [] };
    },
    markOn: ({ annotations }) => (annotations[OWNER] === undefined ? undefined : { rule: asKey(annotations[OWNER]) }),
    getLive: async (rule) => {
      const version = specs.get(rule)?.version;
      return await Promise.resolve(version === undefined ? { state: 'gone' } : { state: 'there', version });
    },
    // The same orphan policy as that of SecretMirrors.
    orphanPolicy: (rule, { annotations }, ruleThere) => {
      if (annotations[RETAIN] === 'true') return 'keep';
      const policy = ruleThere ? specs.get(rule)?.spec.policy : undefined;
      return policy === undefined || policy === 'delete' ? 'delete' : 'keep';
    },
  };
}

const spec = fc.record({
  targets: fc.subarray(Array.from(TARGETS.keys())),
  policy: fc.constantFrom('delete', 'delete', 'retain', 'retain', 'invalid'),
});
const rule = fc.nat({ max: RULES.length - 1 });
const target = fc.nat({ max: TARGETS.length - 1 });
const change = fc.oneof(
  { weight: 9, arbitrary: fc.record({ do: fc.constant('edit'), rule, spec }) },
  fc.record({ do: fc.constant('remove'), rule }),
  fc.record({ do: fc.constant('delete'), target }),
  fc.record({ do: fc.constant('restore'), target, rule }),
);

/** Groups of changes. The engine runs after each group, so it notices all changes of a group together. */
const histories = fc.array(fc.array(change, { minLength: 1, maxLength: 2 }), { minLength: 6, maxLength: 12 });

test('after any history of changes, when the engine has nothing to do, a restart changes no object', async () => {
  await fc.assert(
    fc.asyncProperty(histories, async (history) => {
      const cluster = new Cluster();
      const process = new Process(cluster);
      await process.engine.start(new AbortController().signal);
      for (const together of history) {
        for (const one of together) {
          const rule = 'rule' in one ? (RULES[one.rule] ?? NO_RULE) : NO_RULE;
          const target = 'target' in one ? (TARGETS[one.target] ?? NO_TARGET) : NO_TARGET;
          if (one.do === 'edit') cluster.specs.set(rule, { version: cluster.next(), spec: one.spec });
          if (one.do === 'remove') cluster.specs.delete(rule);
          if (one.do === 'delete') process.put(target, undefined);
          // A restore from a backup brings the copy back together with its marks.
          if (one.do === 'restore') {
            const place = target.slice('c:Secret/'.length);
            const marks = { [OWNER]: rule, 'keyferry.dev/target': place };
            process.put(target, objectAt(target, marks, cluster.next()));
          }
          if (one.do === 'edit' || one.do === 'remove') process.engine.enqueueRule(rule);
        }
        await process.settle();
        const before = cluster.text;
        const next = new Process(cluster);
        await next.engine.start(new AbortController().signal);
        await next.settle();
        await next.engine.stop();
        assert.equal(cluster.text, before);
      }
      await process.engine.stop();
    }),
    { numRuns: 150 },
  );
});
