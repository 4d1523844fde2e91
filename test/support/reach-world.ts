/**
 * Simulates a small cluster, with Keyferry's real engine, rules, claim book, namespaces and plan on it. Three watches
 * (of namespaces, mirrors and objects) deliver changes. Each watch keeps their order, and the test decides how late
 * they arrive. Reads from the server always see the newest state.
 */
import type { NamespaceLimit } from '../../src/config/flags/limit-flags.ts';
import { NamespaceChanges } from '../../src/controllers/common/namespaces/namespace-changes.ts';
import { reachOf } from '../../src/controllers/common/namespaces/reach.ts';
import type { SecretMirror, SecretMirrorSpec } from '../../src/controllers/mirrors/api.ts';
import { createMirrorStore } from '../../src/controllers/mirrors/rules/mirror-store.ts';
import { MirrorRules } from '../../src/controllers/mirrors/rules/rule-set.ts';
import { ReplicatorRules } from '../../src/controllers/replicator/rules.ts';
import { ACCEPT_FROM_ANNOTATION, Namespaces } from '../../src/copy/cluster/watch/namespaces.ts';
import type { TargetWriter } from '../../src/copy/engine/backend.ts';
import type { Life } from '../../src/copy/engine/life/rule-life.ts';
import type { RuleSet, RuleState } from '../../src/copy/model/rule-set.ts';
import { Engine } from '../../src/copy/engine/engine.ts';
import { userCause } from '../../src/copy/model/cause.ts';
import type { FieldPatch, SourceView } from '../../src/copy/model/claim.ts';
import {
  type ObjectKey,
  namespaceOf,
  parseResourceKey,
  resourceKey,
  type ResourceKey,
  type RuleKey,
  ruleName,
} from '../../src/copy/model/keys.ts';
import { SECRET } from '../../src/copy/model/kind.ts';
import { observe, type Observed, PLACE_ANNOTATION } from '../../src/copy/model/observed.ts';
import { decide, type FactSource, type TargetState } from '../../src/copy/plan/decide.ts';
import type { KubeObject } from '../../src/kube/api.ts';
import type { RunResult } from '../../src/runtime/queue/keyed-queue.ts';
import { ManualClock } from './manual-clock.ts';
import type { LimitsState, NamespaceState } from './reach-oracle.ts';
import { lifeOf } from './life.ts';
import { stubBackend } from './stub-backend.ts';
import { ruleScope } from './rule-scope.ts';

const CLUSTER = 'c';
/** Replaced by the real rules. */
const NO_RULES: RuleSet = { name: '', evaluate: () => undefined, markOn: () => undefined, orphanPolicy: () => 'keep' };
/** How long each write waits before it is sent, ms. */
const WRITE_MS = 400;
const CONTENT = { digest: 'd', keys: 'k', type: 'Opaque' };

export type Watch = 'namespaces' | 'mirrors' | 'objects';
export const WATCHES: readonly Watch[] = ['namespaces', 'mirrors', 'objects'];

export const secretKey = (namespace: string, name: string): ObjectKey =>
  resourceKey(CLUSTER, SECRET.kind, namespace, name);

/** The objects on the server. Each change goes to the watches of all running processes. */
export class ReachCluster {
  readonly namespaces = new Map<string, NamespaceState & { readonly uid: string }>();
  readonly mirrors = new Map<string, SecretMirror>();
  readonly objects = new Map<ObjectKey, Observed>();
  readonly processes = new Set<ReachProcess>();
  #version = 0;

  get version(): string {
    return String(this.#version);
  }

  next(): string {
    this.#version += 1;
    return this.version;
  }

  /** @param state - `undefined` deletes the namespace and all objects in it */
  putNamespace(name: string, state: NamespaceState | undefined): void {
    const before = this.namespaces.get(name);
    if (state === undefined) {
      for (const key of this.objects.keys())
        if (parseResourceKey(key).namespace === name) this.putObject(key, undefined);
      this.namespaces.delete(name);
      const gone = namespaceObject(name, { uid: '', labels: {} }, '');
      this.#notice('namespaces', (process) => process.namespaces.sink.remove(gone));
      return;
    }
    const after = { ...state, uid: before?.uid ?? this.next() };
    this.namespaces.set(name, after);
    const object = namespaceObject(name, after, this.next());
    this.#notice('namespaces', (process) => process.namespaces.sink.upsert(object));
  }

  /** @param path - `<namespace>/<name>` @param spec - `undefined` deletes the mirror */
  putMirror(path: string, spec: SecretMirrorSpec | undefined): void {
    const before = this.mirrors.get(path);
    if (spec === undefined) {
      this.mirrors.delete(path);
      if (before !== undefined) this.#notice('mirrors', (process) => process.mirrors.sink.remove(before));
      return;
    }
    const version = this.next();
    const [namespace = '', name = ''] = path.split('/');
    const uid = before?.metadata.uid ?? version;
    const metadata = { name, namespace, uid, creationTimestamp: '', resourceVersion: version };
    const mirror: SecretMirror = { metadata: { ...metadata, generation: Number(version) }, spec };
    this.mirrors.set(path, mirror);
    this.#notice('mirrors', (process) => process.mirrors.put(mirror));
  }

  /** @param annotations - `undefined` deletes the object */
  putObject(key: ObjectKey, annotations: Observed['annotations'] | undefined, labels: Observed['labels'] = {}): void {
    const version = this.next();
    const uid = this.objects.get(key)?.uid ?? version;
    const { namespace, name } = parseResourceKey(key);
    const meta = { uid, name, namespace, resourceVersion: version, creationTimestamp: '', labels };
    const object = annotations && observe({ ...meta, annotations });
    if (object === undefined) this.objects.delete(key);
    else this.objects.set(key, object);
    this.#notice('objects', (process) => process.learn(key, object, version));
  }

  #notice(watch: Watch, bring: (process: ReachProcess) => unknown): void {
    for (const process of this.processes) process.notice(watch, bring);
  }
}

function namespaceObject(
  name: string,
  { uid, labels, acceptFrom }: NamespaceState & { uid: string },
  version: string,
): KubeObject {
  const annotations = acceptFrom === undefined ? {} : { [ACCEPT_FROM_ANNOTATION]: acceptFrom };
  return { metadata: { name, uid, resourceVersion: version, creationTimestamp: '', labels, annotations } };
}

export interface ProcessOptions {
  readonly limits: LimitsState;
  /** Called before each write of the process. @param owner - the owner of the object as it is now */
  readonly onWrite: (target: ResourceKey, owner: RuleKey | undefined, action: 'create' | 'update' | 'delete') => void;
}

export class ReachProcess {
  readonly namespaces = new Namespaces();
  readonly mirrors = createMirrorStore((rule) => this.#engine.enqueueRule(rule));
  readonly #cluster: ReachCluster;
  readonly #options: ProcessOptions;
  readonly #clock = new ManualClock();
  readonly #engine: Engine;
  readonly #mirrorRules: MirrorRules;
  readonly #pushRules: ReplicatorRules;
  readonly #changes: NamespaceChanges;
  readonly #ended = new AbortController();
  /** The objects as the watch has delivered them until now. */
  readonly #objects = new Map<ResourceKey, Observed>();
  readonly #versions = new Map<ResourceKey, number>();
  readonly #late: Readonly<Record<Watch, ((process: ReachProcess) => unknown)[]>> = {
    namespaces: [],
    mirrors: [],
    objects: [],
  };
  readonly errors: unknown[] = [];

  constructor(cluster: ReachCluster, options: ProcessOptions) {
    this.#cluster = cluster;
    this.#options = options;
    const { limits } = options;
    const engine = (this.#engine = new Engine({
      clock: this.#clock,
      onError: (_loop, _key, error) => this.errors.push(error),
    }));
    const onRoom = (rule: RuleKey): void => engine.enqueueRule(rule);
    const reach = reachOf({
      sourceNamespaces: limits.sourcesWith === undefined ? undefined : { selector: limits.sourcesWith },
      destinationNamespaces: destinationsOf(limits),
      excludedNamespaces: limits.excluded && { patterns: limits.excluded },
      requireConsent: limits.requireConsent ?? false,
    });
    const scope = ruleScope({ cluster: CLUSTER, namespaces: this.namespaces, onRoom, reach });
    this.#mirrorRules = new MirrorRules(scope, { mirrors: this.mirrors, viewOf: (source) => this.#viewOf(source) });
    this.#pushRules = new ReplicatorRules(scope, (_kind, namespace, name) =>
      this.#objects.get(secretKey(namespace, name)),
    );
    const log = { error: (_text: string, fields?: object) => this.errors.push(fields) };
    const isCurrent = async (name: string): Promise<boolean> => await Promise.resolve(this.#isCurrent(name));
    const reads = { isCurrent, watchNamespaces: () => undefined };
    const context = { engine, cluster: reads, clock: this.#clock, log, signal: this.#ended.signal };
    this.#changes = new NamespaceChanges(context);
    for (const { targets } of [this.#mirrorRules, this.#pushRules]) this.#changes.serve(targets);
    engine.add(this.#lifeOf(this.#mirrorRules, (rule) => this.#liveMirror(rule)));
    engine.add(this.#lifeOf(this.#pushRules, (rule) => this.#livePush(rule)));
    const backend = stubBackend(CLUSTER);
    const writer: TargetWriter = {
      ...backend.targetsOf(secretKey('', '')),
      reconcile: async (target: ObjectKey, signal) => await this.#reconcile(target, signal),
    };
    engine.backends.add({ ...backend, targetsOf: () => writer });
  }

  /** Lists all objects, as a standby does at its start. */
  open(): void {
    const { namespaces, mirrors, objects } = this.#cluster;
    for (const [name, state] of namespaces) this.namespaces.sink.upsert(namespaceObject(name, state, '1'));
    this.namespaces.onChange(this.#changes.add);
    for (const [key, object] of objects) this.learn(key, object, object.resourceVersion);
    for (const mirror of mirrors.values()) this.mirrors.put(mirror);
    this.#cluster.processes.add(this);
  }

  /** Makes this process the leader. Only the leader writes. */
  async start(): Promise<void> {
    await this.#engine.start(new AbortController().signal);
  }

  /** Ends the process immediately. It makes no more writes. */
  async kill(): Promise<void> {
    this.#cluster.processes.delete(this);
    this.#ended.abort();
    await this.#engine.stop();
  }

  /** Hands a change to a watch. The watch delivers it when the test calls `deliver`. */
  notice(watch: Watch, bring: (process: ReachProcess) => unknown): void {
    this.#late[watch].push(bring);
  }

  /** Delivers the changes that a watch holds back. */
  deliver(watch: Watch): void {
    for (const bring of this.#late[watch].splice(0)) bring(this);
  }

  async wait(ms: number): Promise<void> {
    await this.#clock.advance(ms);
  }

  /** Delivers all changes, and runs until no work is left. */
  async settle(): Promise<void> {
    const busy = (): boolean =>
      this.#engine.queues
        .filter(({ name }) => name !== 'status')
        .map(({ queue }) => queue.metrics())
        .some(({ depth, delayed, running }) => depth + delayed + running > 0);
    for (let round = 0; round < 3 || busy(); round += 1) {
      if (round > 60) throw new Error('there is always something to do');
      for (const watch of WATCHES) this.deliver(watch);
      await this.wait(1500);
    }
  }

  /** Takes a new version of an object, from the watch of objects or from the answer to a write of this process. */
  learn(key: ObjectKey, object: Observed | undefined, version: string, own = false): void {
    if (Number(version) <= (this.#versions.get(key) ?? 0)) return;
    this.#versions.set(key, Number(version));
    const before = this.#objects.get(key);
    if (object === undefined) this.#objects.delete(key);
    else this.#objects.set(key, object);
    this.#engine.objectChanged(key, before, object, own);
    const rule = this.#pushRules.ruleOf(key);
    const [was, is] = [before, object].map((each) => each && this.#pushRules.versionOf(each));
    if (rule !== undefined && was !== is) this.#engine.enqueueRule(rule);
  }

  #lifeOf(rules: MirrorRules | ReplicatorRules, live: (rule: RuleKey) => string | undefined): Life {
    const getLive = async (rule: RuleKey, target: ResourceKey, signal: AbortSignal): Promise<RuleState> => {
      const version = live(rule);
      if (version === undefined) return { state: 'gone' };
      const isOutdated = await this.#changes.isOutdated(rule, namespaceOf(target), signal);
      return { state: 'there', version: isOutdated ? '' : version };
    };
    const nothing = async (): Promise<undefined> => await Promise.resolve(undefined);
    return { ...lifeOf({ ...NO_RULES, getLive, report: nothing }), rules };
  }

  #isCurrent(namespace: string): boolean {
    const state = this.#cluster.namespaces.get(namespace);
    return state !== undefined && this.namespaces.isKnown(namespaceObject(namespace, state, '1'));
  }

  #liveMirror(rule: RuleKey): string | undefined {
    const mirror = this.#cluster.mirrors.get(ruleName(rule));
    return mirror && this.mirrors.versionOf(mirror);
  }

  #livePush(rule: RuleKey): string | undefined {
    const { place } = this.#pushRules.objectOf(rule);
    const object = this.#cluster.objects.get(secretKey(place.namespace, place.name));
    return object && this.#pushRules.versionOf(object);
  }

  async #reconcile(target: ObjectKey, signal: AbortSignal): Promise<RunResult | undefined> {
    const reader = { state: (key: ResourceKey) => this.#stateOf(key), read: unread };
    const { plan } = await decide(target, this.#facts, reader, signal);
    if (plan.do === 'later') return { requeueAfterMs: 1000 };
    if (plan.do === 'replace') throw new Error(`${target} needs no replacement`);
    if (plan.do !== 'create' && plan.do !== 'update' && plan.do !== 'delete') return undefined;
    const before = this.#objects.get(target);
    // If the process was ended during the decision, `abort` came already, and the wait below would never end.
    if (signal.aborted) return undefined;
    // The write waits before it is sent. Meanwhile, objects on the server may change.
    await new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve());
      this.#clock.setTimeout(resolve, WRITE_MS);
    });
    if (signal.aborted) return undefined;
    const there = this.#cluster.objects.get(target);
    const place = parseResourceKey(target);
    // The server would refuse the write, because its preconditions are not met.
    const isRefused =
      before?.resourceVersion !== there?.resourceVersion || !this.#cluster.namespaces.has(place.namespace);
    if (isRefused) return { requeueAfterMs: 1000 };
    this.#options.onWrite(target, before && this.#engine.claims.ownersOf(before, target)[0], plan.do);
    let annotations: Observed['annotations'] | undefined;
    if (plan.do === 'delete') this.#cluster.putObject(target, undefined);
    else {
      const { desired } = plan;
      const marks = { [PLACE_ANNOTATION]: `${place.namespace}/${place.name}` };
      annotations = patched(before?.annotations, { ...desired.annotations, ...desired.bookkeeping, ...marks });
      this.#cluster.putObject(
        target,
        annotations,
        patched(before?.labels, { ...desired.labels, ...desired.bookkeepingLabels }),
      );
    }
    const after = this.#cluster.objects.get(target);
    this.learn(target, after, after?.resourceVersion ?? this.#cluster.version, true);
    return undefined;
  }

  #stateOf(target: ResourceKey): TargetState {
    const observed = this.#objects.get(target);
    const held = observed && { version: observed.resourceVersion, fingerprint: CONTENT };
    const presence = observed === undefined ? 'absent' : 'present';
    return { presence, observed, held, type: CONTENT.type, goingAway: false, cannotUpdate: false };
  }

  #viewOf(source: ResourceKey | undefined): SourceView {
    const object = source && this.#objects.get(source);
    if (object === undefined) return { state: 'missing', ...userCause('NoSecret', '') };
    const { resourceVersion, labels, annotations } = object;
    return { state: 'present', version: resourceVersion, labels, annotations };
  }

  get #facts(): FactSource {
    const { claims, cycles, orphanActionOf } = this.#engine;
    return {
      claims,
      cycles,
      sources: { view: (source) => this.#viewOf(source), fingerprint: () => CONTENT, load: unread },
      orphanActionOf,
      hasNamespace: (name) => this.namespaces.has(name),
      now: () => this.#clock.now(),
    };
  }
}

const unread = async (): Promise<never> => await Promise.reject(new Error('nothing has to be read'));

function destinationsOf({ destinations, destinationsWith }: LimitsState): NamespaceLimit | undefined {
  if (destinationsWith !== undefined) return { selector: destinationsWith };
  return destinations && { patterns: destinations };
}

function patched(before: Observed['labels'] = {}, patch: FieldPatch): Record<string, string> {
  const after = Object.entries({ ...before, ...patch });
  return Object.fromEntries(after.filter((entry): entry is [string, string] => typeof entry[1] === 'string'));
}
