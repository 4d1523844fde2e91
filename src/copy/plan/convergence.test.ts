/**
 * Property test of the claim book and the plan together. Rules are created, changed and deleted (with a finalizer or
 * without), sources change or are not known for a time, users edit, delete and create objects, and the process
 * restarts. A copy that a rule wants and can have is never deleted. After every step the targets are reconciled until nothing
 * is left to do. Then the test checks:
 * - a new process, which has only the rules and the objects, has nothing to do either;
 * - every target is in its desired state, and the objects of users are unchanged.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { userCause } from '../model/cause.ts';
import { type Claim, claimAll, type DesiredState, type Shape, type SourceView, UNREAD } from '../model/claim.ts';
import type { ClaimBook } from '../book/claim-book.ts';
import { Claims } from '../book/claims.ts';
import type { ResourceKey, RuleKey } from '../model/keys.ts';
import { type Observed, PLACE_ANNOTATION } from '../model/observed.ts';
import type { OrphanAction, RuleSet } from '../model/rule-set.ts';
import type { Contest, Facts, Held } from './facts.ts';
import type { Fingerprint } from '../model/content.ts';
import { plan } from './plan.ts';
import { winnerOf } from './contest.ts';
import { asKey, asKeys } from '../../../test/support/keys.ts';

const TARGETS: readonly ResourceKey[] = asKeys(['t0', 't1', 't2', 't3'].map((name) => `c:Secret/${name}/x`));
const SOURCES: readonly ResourceKey[] = asKeys(['s0', 's1'].map((name) => `c:Secret/${name}/x`));
/** A key that no object has. */
const NONE: ResourceKey = asKey('');
const OWNER = 'owner';
const VERSION = 'version';
const RETAIN = 'retain';
const LABEL = 'team';
const unused = (): never => assert.fail('not used');
const CONTROLLER: RuleSet = {
  name: 'test',
  evaluate: unused,
  markOn: ({ annotations }) => (annotations[OWNER] === undefined ? undefined : { rule: asKey(annotations[OWNER]) }),
  orphanPolicy: unused,
};

function newClaims(): Claims {
  const claims = new Claims();
  claims.add(CONTROLLER);
  return claims;
}

interface Rule {
  readonly targets: readonly number[];
  readonly source: number;
  readonly retain: boolean;
  /** The rule is being deleted: it releases its copies. */
  readonly ending: boolean;
}

interface Thing {
  uid: number;
  rv: number;
  labels: Record<string, string>;
  annotations: Record<string, string>;
  fingerprint: Fingerprint;
  /** Whether Keyferry was the last to write the data. */
  ours: boolean;
}

class TestShape implements Shape {
  readonly id: string;
  readonly #rule: RuleKey;
  readonly #retain: boolean;

  constructor(rule: RuleKey, retain: boolean) {
    this.id = `${rule} ${retain}`;
    this.#rule = rule;
    this.#retain = retain;
  }

  desiredState(source: SourceView): DesiredState {
    if (source.state === 'unknown') return UNREAD;
    if (source.state !== 'present') return { kind: 'wait', for: 'source', ...userCause('NoSecret', '') };
    return {
      kind: 'be',
      labels: source.labels,
      annotations: { [OWNER]: this.#rule, [RETAIN]: this.#retain ? 'true' : null },
      bookkeeping: { [VERSION]: source.version },
      data: 'source',
    };
  }

  heldVersion(observed: Observed): string | undefined {
    return observed.annotations[VERSION];
  }
}

/** A cluster, and a process with the real claim book and plan. */
class World {
  readonly rules = new Map<RuleKey, Rule>();
  readonly sources = new Map<
    ResourceKey,
    { view: Extract<SourceView, { state: 'present' }>; fingerprint: Fingerprint }
  >();
  /** Sources that exist, but that no watch has reported yet. */
  readonly unreported = new Set<ResourceKey>();
  readonly things = new Map<ResourceKey, Thing>();
  claims = newClaims();
  held = new Map<ResourceKey, Held>();
  writes = 0;
  #counter = 0;

  get book(): ClaimBook {
    return this.claims.book;
  }

  next(): number {
    return (this.#counter += 1);
  }

  /** Forgets everything that is only in memory, and evaluates all rules again, as after a kill and a start. */
  restart(): void {
    this.claims = newClaims();
    this.held = new Map();
    for (const rule of this.rules.keys()) this.evaluate(rule);
  }

  evaluate(key: RuleKey): void {
    const rule = this.rules.get(key);
    const targets: ResourceKey[] = [];
    const source = SOURCES[rule?.source ?? 0];
    const shape = new TestShape(key, rule?.retain ?? false);
    for (const index of rule?.targets ?? []) {
      const target = TARGETS[index];
      if (target !== undefined) targets.push(target);
    }
    const owner = { key, title: key, rank: key };
    if (rule?.ending === true) {
      const owned = TARGETS.filter((target) => this.contest(target).markedBy === key);
      this.book.replace(
        key,
        claimAll(rule.retain ? [] : owned, { owner, mode: 'release', source: undefined, shape }),
        [],
      );
      return;
    }
    const claims = claimAll(targets, { owner, mode: 'own', source, shape });
    this.book.replace(key, claims, source === undefined ? [] : [source]);
  }

  /** Reconciles until nothing is left to do. @returns the number of writes */
  settle(): number {
    const before = this.writes;
    // What a rule releases are the copies that it has now.
    for (const [rule, { ending }] of this.rules) if (ending) this.evaluate(rule);
    for (const target of TARGETS) {
      for (let round = 0; this.#step(target); round += 1)
        assert.ok(round < 12, `${target} does not reach a state without writes`);
    }
    return this.writes - before;
  }

  #step(target: ResourceKey): boolean {
    const thing = this.things.get(target);
    const found: { held?: Held; orphanAction?: OrphanAction } = {};
    for (let round = 0; round < 6; round += 1) {
      const decision = plan(this.#facts(target, thing, found));
      switch (decision.do) {
        case 'need':
          if (decision.fact === 'owner') found.orphanAction = this.#fate(thing);
          else if (decision.fact === 'target' && thing !== undefined) this.held.set(target, heldOf(thing));
          else assert.fail(`needs ${decision.fact}`);
          continue;
        case 'create':
        case 'update': {
          const source = this.sources.get(decision.claim.source ?? NONE);
          assert.ok(source);
          const next: Thing = thing ?? {
            uid: this.next(),
            rv: 0,
            labels: {},
            annotations: {},
            fingerprint: source.fingerprint,
            ours: true,
          };
          assert.equal(decision.do, thing === undefined ? 'create' : 'update');
          apply(next.labels, decision.desired.labels);
          apply(next.annotations, { ...decision.desired.annotations, ...decision.desired.bookkeeping });
          next.rv = this.next();
          if (decision.withData) {
            next.fingerprint = source.fingerprint;
            next.ours = true;
          }
          this.things.set(target, next);
          this.held.set(target, heldOf(next));
          this.writes += 1;
          return true;
        }
        case 'delete':
        case 'replace':
          this.#assertNotInPlace(target, thing);
          this.things.delete(target);
          this.held.delete(target);
          this.writes += 1;
          return true;
        case 'nothing':
        case 'wait':
        case 'fail':
        case 'conflict':
          return false;
        default:
          return decision satisfies never;
      }
    }
    return assert.fail('a plan with only needs');
  }

  /** Fails if a copy is deleted although a rule could have updated it or taken it over. */
  #assertNotInPlace(target: ResourceKey, thing: Thing | undefined): void {
    const source = this.sources.get(winnerOf(this.contest(target))?.claim.source ?? NONE);
    const isInPlace = source !== undefined && source.fingerprint.type === thing?.fingerprint.type;
    assert.ok(!isInPlace, `${target} is deleted, and a rule needs one like it`);
  }

  #fate(thing: Thing | undefined): OrphanAction {
    return thing?.annotations[RETAIN] === 'true' ? 'keep' : 'delete';
  }

  contest(target: ResourceKey): Contest {
    const thing = this.things.get(target);
    const owners = thing === undefined ? [] : this.claims.ownersOf(observedOf(thing), target);
    return {
      entries: this.book.on(target),
      markedBy: owners[0],
      leftBy: owners.filter((rule) => !this.book.claims(rule, target)),
      observed: thing && observedOf(thing),
      viewOf: ({ source = NONE }) => {
        if (this.unreported.has(source)) return { state: 'unknown' };
        return this.sources.get(source)?.view ?? { state: 'missing', ...userCause('NoSecret', '') };
      },
      now: 0,
    };
  }

  #facts(target: ResourceKey, thing: Thing | undefined, found: { orphanAction?: OrphanAction }): Facts {
    const fingerprintOf = (claim: Claim): Fingerprint | undefined =>
      this.sources.get(claim.source ?? NONE)?.fingerprint;
    return {
      ...this.contest(target),
      target,
      usedBy: this.book.userOf(target),
      presence: thing === undefined ? 'absent' : 'present',
      observed: thing === undefined ? undefined : observedOf(thing),
      goingAway: false,
      fingerprintOf,
      held: this.held.get(target),
      type: this.held.get(target)?.fingerprint.type,
      orphanAction: found.orphanAction,
      cannotUpdate: false,
    };
  }
}

function heldOf(thing: Thing): Held {
  return { version: String(thing.rv), fingerprint: thing.fingerprint };
}

function observedOf(thing: Thing): Observed {
  return {
    uid: String(thing.uid),
    resourceVersion: String(thing.rv),
    created: '',
    deleting: false,
    labels: { ...thing.labels },
    annotations: { ...thing.annotations },
    ownKeys: thing.ours ? thing.fingerprint.keys : undefined,
    ownLabels: [LABEL],
    ownAnnotations: [OWNER, PLACE_ANNOTATION, VERSION, RETAIN],
  };
}

function apply(map: Record<string, string>, wanted: Readonly<Record<string, string | null>>): void {
  for (const [key, value] of Object.entries(wanted)) {
    if (value === null) delete map[key];
    else map[key] = value;
  }
}

type Step =
  | { do: 'rule'; rule: number; spec: Rule | undefined }
  | { do: 'source'; source: number; content: number | undefined; type: string; label: boolean }
  | { do: 'edit' | 'dropKey' | 'delete' | 'unmark'; target: number }
  | { do: 'foreign'; target: number }
  | { do: 'clone'; from: number; target: number }
  | { do: 'unreport' | 'report'; source: number }
  | { do: 'restart' };

const index = fc.nat({ max: TARGETS.length - 1 });
/** Groups of steps. A group happens before the next reconciliation, as if at one time or while no process runs. */
const histories = fc.array(
  fc.array(
    fc.oneof(
      fc.record({
        do: fc.constant('rule' as const),
        rule: fc.nat({ max: 2 }),
        spec: fc.option(
          fc.record({
            targets: fc.uniqueArray(index),
            source: fc.nat({ max: 1 }),
            retain: fc.boolean(),
            ending: fc.boolean(),
          }),
          { nil: undefined, freq: 4 },
        ),
      }),
      fc.record({
        do: fc.constant('source' as const),
        source: fc.nat({ max: 1 }),
        content: fc.option(fc.nat({ max: 3 }), { nil: undefined, freq: 6 }),
        type: fc.constantFrom('Opaque', 'Opaque', 'kubernetes.io/tls'),
        label: fc.boolean(),
      }),
      fc.record({
        do: fc.constantFrom('edit' as const, 'dropKey' as const, 'delete' as const, 'unmark' as const),
        target: index,
      }),
      fc.record({ do: fc.constant('foreign' as const), target: index }),
      fc.record({ do: fc.constant('clone' as const), from: index, target: index }),
      fc.record({ do: fc.constantFrom('unreport' as const, 'report' as const), source: fc.nat({ max: 1 }) }),
      fc.record({ do: fc.constant('restart' as const) }),
    ),
    { minLength: 1, maxLength: 3 },
  ),
  { maxLength: 30, size: 'max' },
) as fc.Arbitrary<Step[][]>;

function carryOut(world: World, step: Step): void {
  switch (step.do) {
    case 'rule': {
      const key: RuleKey = asKey(`mirrors:r/${step.rule}`);
      if (step.spec === undefined) world.rules.delete(key);
      else world.rules.set(key, step.spec);
      world.evaluate(key);
      break;
    }
    case 'source': {
      const key = SOURCES[step.source] ?? NONE;
      world.unreported.delete(key);
      if (step.content === undefined) world.sources.delete(key);
      else {
        const labels: Record<string, string> = step.label ? { [LABEL]: 'a' } : {};
        const view = { state: 'present' as const, version: String(world.next()), labels, annotations: {} };
        world.sources.set(key, {
          view,
          fingerprint: { digest: `d${step.content}`, keys: `k${step.content}`, type: step.type },
        });
      }
      break;
    }
    case 'edit':
    case 'dropKey':
    case 'unmark': {
      const thing = world.things.get(TARGETS[step.target] ?? NONE);
      if (thing === undefined) break;
      thing.rv = world.next();
      if (step.do === 'unmark') delete thing.annotations[OWNER];
      else if (step.do === 'dropKey') {
        // A client that only removes a key does not appear in the managed fields of the data.
        thing.fingerprint = { ...thing.fingerprint, digest: 'less', keys: '' };
      } else {
        thing.fingerprint = { ...thing.fingerprint, digest: 'tampered' };
        thing.ours = false;
      }
      break;
    }
    case 'delete':
      world.things.delete(TARGETS[step.target] ?? NONE);
      break;
    case 'foreign':
      world.things.set(TARGETS[step.target] ?? NONE, {
        uid: world.next(),
        rv: world.next(),
        labels: {},
        annotations: {},
        fingerprint: { digest: 'foreign', keys: 'f', type: 'Opaque' },
        ours: false,
      });
      break;
    case 'clone': {
      const thing = world.things.get(TARGETS[step.from] ?? NONE);
      if (thing === undefined || step.from === step.target) break;
      const { labels, annotations, fingerprint } = thing;
      world.things.set(TARGETS[step.target] ?? NONE, {
        uid: world.next(),
        rv: world.next(),
        labels: { ...labels },
        annotations: { ...annotations },
        fingerprint,
        ours: false,
      });
      break;
    }
    case 'unreport':
    case 'report': {
      const key = SOURCES[step.source] ?? NONE;
      if (step.do === 'unreport' && world.sources.has(key)) world.unreported.add(key);
      else world.unreported.delete(key);
      break;
    }
    case 'restart':
      world.restart();
      break;
    default:
      assert.fail(step satisfies never);
  }
}

function checkTruth(world: World, foreign: ReadonlyMap<ResourceKey, string>): void {
  for (const target of TARGETS) {
    const thing = world.things.get(target);
    const untouched = foreign.get(target);
    if (untouched !== undefined) {
      assert.equal(JSON.stringify(thing), untouched, `${target} belongs to a user and was changed`);
      continue;
    }
    const winner = winnerOf(world.contest(target))?.claim;
    if (winner === undefined) {
      assert.ok(thing === undefined || thing.annotations[RETAIN] === 'true', `${target} has no claim and exists`);
      continue;
    }
    const source = world.sources.get(winner.source ?? NONE);
    if (source === undefined || world.unreported.has(winner.source ?? NONE)) continue;
    if (thing?.annotations[RETAIN] === 'true' && thing.annotations[OWNER] !== winner.owner.key) continue;
    assert.deepEqual(thing?.fingerprint, source.fingerprint, `${target} does not hold its source`);
    assert.equal(thing?.annotations[OWNER], winner.owner.key);
    assert.deepEqual(thing.labels, source.view.labels, `${target} has other labels than its source`);
  }
}

test('after any history each target is as a restarted process wants it, and objects of users are unchanged', () => {
  fc.assert(
    fc.property(histories, (history) => {
      const world = new World();
      for (const together of history) {
        for (const step of together) carryOut(world, step);
        const foreign = new Map<ResourceKey, string>();
        for (const [target, thing] of world.things) {
          const { [OWNER]: owner, [PLACE_ANNOTATION]: place } = thing.annotations;
          const cloned = place !== undefined && !target.endsWith(`/${place}`);
          if (owner === undefined || cloned) foreign.set(target, JSON.stringify(thing));
        }
        world.settle();
        assert.equal(world.settle(), 0, 'settling twice writes again');
        checkTruth(world, foreign);
        const { claims, held } = world;
        world.restart();
        assert.equal(world.settle(), 0, 'a fresh start has something to do');
        world.claims = claims;
        world.held = held;
      }
    }),
    { numRuns: 1500 },
  );
});
