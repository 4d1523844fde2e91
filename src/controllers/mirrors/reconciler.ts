/**
 * The SecretMirror system: mirrors in, claims out, status back.
 */
import type { KubeApi, KubeObject } from '../../kube/api.ts';
import { isInvalid, isObjectGone } from '../../kube/errors.ts';
import { parseJson } from '../../kube/json.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import { orAborted } from '../../runtime/abort.ts';
import { SingleFlight } from '../../runtime/single-flight.ts';
import { type Claim, isUnderWay, type Owner, type SourceView } from '../../copy/model/claim.ts';
import type { Entry } from '../../copy/plan/claim-book.ts';
import { type ResourceKey, parseResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { isMarkedElsewhere } from '../../copy/plan/marks.ts';
import type { Namespaces } from '../../copy/cluster/namespaces.ts';
import { FIELD_MANAGER, type Observed } from '../../copy/model/observed.ts';
import { SPARED } from '../../copy/plan/plan.ts';
import type { EngineView, Evaluation, RuleNews, RuleState, RuleReconciler } from '../../copy/rule-reconciler.ts';
import {
  MIRROR_ANNOTATIONS,
  MIRRORS_GROUP,
  MIRRORS_SYSTEM,
  MIRRORS_VERSION,
  SECRET_MIRROR_FINALIZER,
  SECRET_MIRROR_KIND,
  SECRET_MIRROR_PLURAL,
  type SecretMirror,
  type SecretMirrorStatus,
} from './api.ts';
import { MAX_LIST, mirrorName, mirrorRule, type MirrorStore, ruleVersion } from './mirror-store.ts';
import type { LeftBehind } from './left-behind.ts';
import type { PatternCache } from '../common/namespace-patterns.ts';
import { COPY_LABEL, MirrorShape, RETAIN_ANNOTATION, RetainShape } from './shape.ts';
import { leavingClaims } from '../../copy/model/leave-shape.ts';
import { MAX_TARGETS, TargetLedger } from '../common/target-ledger.ts';
import type { Steps } from '../../runtime/slices.ts';
import { effectiveSpec, type EffectiveSpec, missingDefaults, sourceSecretOf, type SpecOptions } from './spec.ts';
import type { MirrorVault } from './mirror-vault.ts';
import { withoutOurSpec } from './spec-owner.ts';
import { misreadPatterns } from './misread-patterns.ts';
import { foldStatus, type MirrorEvent, sameStatus, type StatusInput, type StatusOutput } from './status.ts';
import { judgeDeletion, places, tallyOf } from './verdict.ts';

export interface MirrorSystemOptions {
  readonly api: KubeApi;
  readonly mirrors: MirrorStore;
  readonly namespaces: Namespaces;
  readonly patterns: PatternCache;
  /** Key of a Secret in the cluster. */
  readonly secretKey: (namespace: string, name: string) => ResourceKey;
  readonly viewOf: (source: ResourceKey) => SourceView;
  /** Without it the mirrors from and to Vault get nothing done. */
  readonly vault?: MirrorVault | undefined;
  readonly specOptions?: SpecOptions | undefined;
  readonly recordEvent: (mirror: SecretMirror, event: MirrorEvent) => void;
  /** A mirror has been brought up to date. */
  readonly onSynced: (mirror: string, spec: EffectiveSpec, namespaces: number) => void;
  /** A mirror is gone. */
  readonly onGone: (mirror: string) => void;
  readonly leftBehind?: LeftBehind | undefined;
  /** How long a mirror that is being deleted waits for its copies to go, ms. */
  readonly deletionTimeoutMs: number;
  /** A mirror may find more or less room for its copies than when it was last evaluated. */
  readonly onRoom?: (rule: RuleKey) => void;
  /** Some mirrors have not been told yet of a namespace that came or went. */
  readonly isNamespaceNews?: () => boolean;
  /** Settles when the mirrors and all copies have been listed. */
  readonly synced: () => Promise<unknown>;
  /** Wall clock, ms. */
  readonly now: () => number;
}

/** The source of a mirror that is being deleted. */
const UNWANTED: SourceView = { state: 'missing', reason: 'Deleted', message: 'the mirror is being deleted' };

/** A version that no evaluation has. */
const NOT_EVALUATED = '';

const MERGE_PATCH = 'application/merge-patch+json';

export class MirrorSystem implements RuleReconciler {
  readonly name = MIRRORS_SYSTEM;
  readonly #options: MirrorSystemOptions;
  readonly #liveGets = new SingleFlight<RuleState>();
  /** What was last written: a CRD that does not know a field drops it, and must not make us write it for ever. */
  readonly #written = new Map<RuleKey, { readonly uid: string; readonly status: SecretMirrorStatus }>();
  /** The events of a status that is still to be written. */
  readonly #announced = new Map<RuleKey, string>();

  /** Uids, by rule, of mirrors whose stored spec is so wrong that the server refuses to have defaults written into it. */
  readonly #undefaultable = new Map<RuleKey, string>();

  /** Why mirrors are not carried out though their specs are right: they ask for too much. */
  readonly #refusals = new Map<RuleKey, string>();
  readonly #ledger: TargetLedger;

  readonly #specs = new WeakMap<SecretMirror, EffectiveSpec>();

  constructor(options: MirrorSystemOptions) {
    this.#options = options;
    this.#ledger = new TargetLedger({
      namespaces: () => options.namespaces.size,
      onChange: (rule) => options.onRoom?.(rule),
    });
  }

  /** The effective spec; made once for every version of a mirror, because every namespace event asks for all of them. */
  #specOf(mirror: SecretMirror): EffectiveSpec {
    let spec = this.#specs.get(mirror);
    if (spec === undefined) {
      spec = effectiveSpec(mirror, this.#options.patterns, this.#options.specOptions);
      this.#specs.set(mirror, spec);
    }
    return spec;
  }

  /** The rules that a namespace may concern. */
  *rulesFor(namespace: string): Steps<readonly RuleKey[]> {
    const rules: RuleKey[] = [];
    for (const [rule, mirror] of this.#options.mirrors.all()) {
      if (this.#specOf(mirror).namespaces.has(namespace)) rules.push(rule);
      yield;
    }
    return rules;
  }

  /** There are more or fewer namespaces, and so is what the mirrors of one may ask for. */
  recount(): void {
    this.#ledger.recount();
  }

  /** The Secrets that a mirror copies from. */
  secretsOf(rule: RuleKey): ResourceKey[] {
    const mirror = this.#options.mirrors.get(rule);
    if (mirror === undefined || mirror.metadata.deletionTimestamp !== undefined) return [];
    // Not the whole spec: its patterns may take long to compile, and many mirrors come at once.
    const name = mirror.spec?.source?.type === 'vault' ? undefined : sourceSecretOf(mirror);
    return name === undefined ? [] : [this.#options.secretKey(mirror.metadata.namespace ?? '', name)];
  }

  *warmUp(rule: RuleKey): Steps<void> {
    const mirror = this.#options.mirrors.get(rule);
    if (mirror === undefined || this.#specs.has(mirror)) return;
    for (const pattern of mirror.spec?.destination?.namespaces ?? []) {
      this.#options.patterns.get(pattern);
      yield;
    }
  }

  /** Puts our finalizer on a mirror and writes its defaults into it, before anything is copied for it; then gives these up. */
  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const { mirrors, synced } = this.#options;
    // What a mirror owns is only known once all copies have been listed.
    await orAborted(synced(), signal, 'waiting for the list of copies');
    const mirror = mirrors.get(rule);
    if (mirror === undefined || mirror.metadata.deletionTimestamp !== undefined) return;
    const finalizers = mirror.metadata.finalizers ?? [];
    const marked = finalizers.includes(SECRET_MIRROR_FINALIZER);
    const undefaultable = this.#undefaultable.get(rule) === mirror.metadata.uid;
    const spec = undefaultable ? undefined : missingDefaults(mirror, this.#specOf(mirror));
    if (!marked || spec !== undefined) {
      const marks = marked ? {} : { finalizers: [...finalizers, SECRET_MIRROR_FINALIZER] };
      try {
        await this.#patch(mirror, marks, spec, signal);
      } catch (error) {
        // A mirror that was stored before the CRD checked anything may be refused as a whole; its finalizer is not.
        if (!isInvalid(error) || spec === undefined) throw error;
        this.#undefaultable.set(rule, mirror.metadata.uid);
        if (!marked) await this.#patch(mirror, marks, undefined, signal);
      }
    }
    await this.#giveUpDefaults(rule, signal);
  }

  /** A request of its own: for what a request changes, the server makes its sender the owner. */
  async #giveUpDefaults(rule: RuleKey, signal: AbortSignal): Promise<void> {
    const mirror = this.#options.mirrors.get(rule);
    const managedFields = withoutOurSpec(mirror?.metadata.managedFields);
    if (mirror === undefined || managedFields === undefined) return;
    try {
      await this.#patch(mirror, { managedFields }, undefined, signal);
    } catch (error) {
      // A stored mirror that the CRD no longer takes is copied all the same; who owns its fields matters less.
      if (!isInvalid(error)) throw error;
    }
  }

  async #patch(mirror: SecretMirror, marks: object, spec: object | undefined, signal: AbortSignal): Promise<void> {
    const { api, mirrors } = this.#options;
    const { resourceVersion } = mirror.metadata;
    const path = pathOf(mirror);
    const { body } = await api.request({
      method: 'PATCH',
      path,
      query: { fieldManager: FIELD_MANAGER },
      body: JSON.stringify({ metadata: { resourceVersion, ...marks }, ...(spec === undefined ? {} : { spec }) }),
      contentType: MERGE_PATCH,
      signal,
    });
    mirrors.learn(parseJson(body, `the answer to PATCH ${path}`) as KubeObject);
  }

  *evaluate(rule: RuleKey, view: EngineView): Steps<Evaluation | undefined> {
    const { mirrors, namespaces, secretKey, vault } = this.#options;
    const mirror = mirrors.get(rule);
    const deleting = mirror?.metadata.deletionTimestamp !== undefined;
    if (mirror === undefined || deleting) {
      vault?.release(rule);
      this.#ledger.release(rule);
      this.#refusals.delete(rule);
    }
    if (mirror === undefined) return undefined;
    const { metadata } = mirror;
    const home = metadata.namespace ?? '';
    const spec = this.#specOf(mirror);
    const owner: Owner = {
      key: rule,
      title: `${SECRET_MIRROR_KIND} ${home}/${metadata.name}`,
      rank: `${metadata.creationTimestamp} ${metadata.uid}`,
    };
    const version = ruleVersion(mirror);
    const retain = spec.deletePolicy === 'retain';
    if (deleting && retain) {
      // The word of a mirror that is gone is what stands on its copies.
      const shape = new RetainShape(`${home}/${metadata.name}`);
      const keep = { owner, mode: 'own', source: undefined, shape } as const;
      const claims = Array.from(view.ownedBy(rule), (target): Claim => ({ ...keep, target }));
      return { owner, version, claims, sources: [] };
    }
    if (!deleting) vault?.use(rule, spec);
    const source = this.#sourceOf(mirror, spec);
    const vaultPath = spec.sourceType === 'vault' ? (spec.sourceVault?.path ?? '') : undefined;
    const shape = new MirrorShape({ owner: `${home}/${metadata.name}`, retain, vaultPath });
    const from = deleting ? { source: undefined } : { source, sourcePlace: vault?.placeOf(spec) };
    const claim = { owner, mode: deleting ? 'release' : 'own', ...from, shape } as const;
    const claims: Claim[] = [];
    const { sourceName } = spec;
    for (const namespace of namespaces.names()) {
      yield;
      if (sourceName === undefined || !spec.namespaces.has(namespace)) continue;
      const target = secretKey(namespace, sourceName);
      if (target !== source) claims.push({ ...claim, target });
    }
    const refusal = deleting ? undefined : this.#refuse(rule, home, owner, claims.length);
    if (refusal !== undefined) {
      const claims = leavingClaims(owner, view.ownedBy(rule), 'InvalidSpec', refusal);
      return { owner, version, claims, sources: source === undefined ? [] : [source] };
    }
    const entry = deleting ? undefined : vault?.targetOf(spec);
    if (entry !== undefined && source !== undefined) claims.push({ ...claim, target: entry });
    if (deleting) for (const target of view.ownedBy(rule)) claims.push({ ...claim, target });
    else if (spec.problems.length > 0) {
      // Nothing is deleted because of a mistake: what the mirror has made stays until its spec is right.
      const claimed = new Set(claims.map(({ target }) => target));
      const left = [...view.ownedBy(rule)].filter((target) => !claimed.has(target));
      claims.push(...leavingClaims(owner, left, 'InvalidSpec', 'the spec of its mirror has a mistake'));
    }
    return { owner, version, claims, sources: deleting || source === undefined ? [] : [source] };
  }

  /** Why nothing is copied for a mirror whose spec is right, as of its last evaluation. */
  refusalOf(rule: RuleKey): string | undefined {
    return this.#refusals.get(rule);
  }

  /** Why nothing is copied, if the mirror asks for more than it may. What it has copied stays as it is. */
  #refuse(rule: RuleKey, home: string, { rank }: Owner, targets: number): string | undefined {
    const field = 'spec.destination.namespaces';
    const excess = this.#options.mirrors.excess(rule);
    const refused = excess !== undefined || targets > MAX_TARGETS;
    if (refused) this.#ledger.release(rule);
    const fits = !refused && this.#ledger.request(rule, home, rank, targets);
    const refusal = fits
      ? undefined
      : excess !== undefined
        ? `${field}: the patterns are ${excess} characters long together; they may have ${MAX_LIST}`
        : targets > MAX_TARGETS
          ? `${field}: matches ${targets} namespaces; a mirror may copy to ${MAX_TARGETS} at most`
          : `${field}: matches ${targets} namespaces; the mirrors of namespace ${home} ask for more than ${this.#ledger.limit} copies together, and the older ones come first`;
    if (refusal === undefined) this.#refusals.delete(rule);
    else this.#refusals.set(rule, refusal);
    return refusal;
  }

  /** `undefined`: it cannot be said where it is. */
  #sourceOf(mirror: SecretMirror, spec: EffectiveSpec): ResourceKey | undefined {
    if (spec.sourceType === 'vault') return this.#options.vault?.sourceOf(ruleOf(mirror), spec);
    if (spec.sourceName === undefined) return undefined;
    return this.#options.secretKey(mirror.metadata.namespace ?? '', spec.sourceName);
  }

  ownerOf({ annotations }: Observed, target: ResourceKey): RuleKey | undefined {
    const mark = annotations[MIRROR_ANNOTATIONS.ownedBy];
    if (mark === undefined) return undefined;
    const place = parseResourceKey(target);
    // Mirrors make Secrets, and those of this cluster.
    if (this.#options.secretKey(place.namespace, place.name) !== target) return undefined;
    if (isMarkedElsewhere(annotations, place)) return undefined;
    const [namespace, name, ...rest] = mark.split('/');
    if (!namespace || !name || rest.length > 0) return undefined;
    return mirrorRule(namespace, name);
  }

  async getLive(rule: RuleKey, signal: AbortSignal): Promise<RuleState> {
    return await this.#liveGets.run(rule, async (signal) => await this.#getLive(rule, signal), signal);
  }

  async #getLive(rule: RuleKey, signal: AbortSignal): Promise<RuleState> {
    const [namespace = '', name = ''] = mirrorName(rule).split('/');
    try {
      const path = pathTo(namespace, name);
      const { body } = await this.#options.api.request({ method: 'GET', path, signal });
      const version = ruleVersion(parseJson(body, `the answer to GET ${path}`) as SecretMirror);
      return { state: 'there', version: this.#options.isNamespaceNews?.() === true ? NOT_EVALUATED : version };
    } catch (error) {
      if (isObjectGone(error, name)) return { state: 'gone' };
      throw error;
    }
  }

  orphanPolicy(rule: RuleKey, observed: Observed, ruleThere: boolean): 'delete' | 'keep' {
    // The copy itself says that it stays: its mirror may be gone, or may have changed its mind after leaving it behind.
    if (observed.annotations[RETAIN_ANNOTATION] === 'true') return 'keep';
    // Made by the original, and left behind by it: perhaps on purpose, which it did not write down.
    if (observed.labels[COPY_LABEL] !== MIRRORS_SYSTEM) return 'keep';
    const mirror = ruleThere ? this.#options.mirrors.get(rule) : undefined;
    if (mirror === undefined) return 'delete';
    // A mirror with a mistake keeps its copies, also one that came after its evaluation (a backup that was restored).
    const { problems, deletePolicy } = this.#specOf(mirror);
    if (this.#refusals.has(rule) || problems.length > 0) return 'keep';
    return deletePolicy === 'retain' ? 'keep' : 'delete';
  }

  async updateStatus(
    rule: RuleKey,
    entries: Iterable<Entry>,
    news: RuleNews,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { mirrors, namespaces, viewOf, vault } = this.#options;
    const mirror = mirrors.get(rule);
    if (mirror === undefined) {
      this.#written.delete(rule);
      this.#announced.delete(rule);
      this.#undefaultable.delete(rule);
      this.#options.leftBehind?.forget(rule);
      this.#options.onGone(mirrorName(rule));
      return undefined;
    }
    // Its claims are of what it said before. It is about to be evaluated, and reported on again.
    const outrun = news.evaluated !== ruleVersion(mirror);
    if (outrun && news.failure === undefined) return undefined;
    const spec = this.#specOf(mirror);
    const claims = [...entries];
    if (mirror.metadata.deletionTimestamp !== undefined) {
      return outrun ? undefined : await this.#reportDeletion(rule, mirror, claims, signal);
    }
    const key = this.#sourceOf(mirror, spec);
    const result = await this.#tell(rule, mirror, claims, signal, {
      source: key === undefined ? { state: 'unknown' } : viewOf(key),
      trouble: key === undefined ? undefined : vault?.trouble(key),
      failure: news.failure,
      misread: misreadPatterns(spec.suspects, namespaces.names()),
      writes: news.writes,
    });
    if (result === undefined) return undefined;
    if (result.synced) this.#options.onSynced(mirrorName(rule), spec, result.namespaces);
    await this.#options.leftBehind?.check(rule, mirror, spec, signal);
    return { requeueAfterMs: vault?.leases.endReplaced(rule, mirror, result.status, claims) };
  }

  /**
   * Lets a mirror go when its copies are gone or marked to stay, and tells what it waits for until then. After the time limit, which
   * counts from its deletion, it goes without its copies: these are orphans then, and go when they can.
   */
  async #reportDeletion(
    rule: RuleKey,
    mirror: SecretMirror,
    claims: readonly Entry[],
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const { vault, now, deletionTimeoutMs } = this.#options;
    const spec = this.#specOf(mirror);
    const kept = claims.filter((entry) => !isLetGo(entry));
    const leftMs = Date.parse(mirror.metadata.deletionTimestamp ?? '') + deletionTimeoutMs - now();
    const isOver = leftMs <= 0 && kept.every((entry) => mayBeLeft(entry));
    if (kept.length === 0 || isOver) {
      if (vault?.leases.revocation(rule, mirror, spec) === false) return undefined;
      const events = sparedEvents(claims);
      if (kept.length > 0) {
        const { message } = judgeDeletion(tallyOf(kept, spec.destinationType), 'Pending');
        const text = `the mirror no longer waits for its copies; those that are left are deleted as soon as that is possible. Until now: ${message}`;
        events.push({ type: 'Warning', reason: 'DeletionTimeout', message: text });
      }
      this.#announce(rule, mirror, events);
      await this.#letGo(mirror, signal);
      return undefined;
    }
    await this.#tell(rule, mirror, claims, signal, { source: UNWANTED, misread: [], writes: 0 });
    return leftMs > 0 ? { requeueAfterMs: leftMs } : undefined;
  }

  /** Brings status and events up to date. @returns undefined while nothing can be said */
  async #tell(
    rule: RuleKey,
    mirror: SecretMirror,
    entries: readonly Entry[],
    signal: AbortSignal,
    facts: Pick<StatusInput, 'source' | 'trouble' | 'failure' | 'misread' | 'writes'>,
  ): Promise<StatusOutput | undefined> {
    const written = this.#written.get(rule);
    // A mirror of the same name may have taken the old one's place between two reports.
    const previous = written?.uid === mirror.metadata.uid ? written.status : mirror.status;
    const refusal = this.#refusals.get(rule);
    const spec = this.#specOf(mirror);
    const result = foldStatus({
      ...facts,
      mirror,
      spec: refusal === undefined ? spec : { ...spec, problems: [refusal] },
      entries,
      leases: this.#options.vault?.leases.news(rule, entries),
      previous,
      now: this.#options.now(),
    });
    if (result === undefined) return undefined;
    this.#announce(rule, mirror, result.events);
    if (!sameStatus(previous, result.status)) await this.#writeStatus(rule, mirror, result.status, signal);
    this.#announced.delete(rule);
    return result;
  }

  /** Before the status is written, which may be refused; but once, however often that is tried. */
  #announce(rule: RuleKey, mirror: SecretMirror, events: readonly MirrorEvent[]): void {
    const text = JSON.stringify([mirror.metadata.uid, events]);
    if (this.#announced.get(rule) === text) return;
    this.#announced.set(rule, text);
    for (const event of events) this.#options.recordEvent(mirror, event);
  }

  async #writeStatus(
    rule: RuleKey,
    mirror: SecretMirror,
    status: SecretMirrorStatus,
    signal: AbortSignal,
  ): Promise<void> {
    const { api, mirrors } = this.#options;
    // A merge patch takes away only what it names.
    const { vaultSource } = status;
    const forgotten = {
      ...(mirror.status?.vaultSource !== undefined && {
        vaultSource: vaultSource === undefined ? null : { tokenExpirationTime: null, ...vaultSource },
      }),
      ...(mirror.status?.vaultLeases !== undefined && { vaultLeases: status.vaultLeases ?? null }),
    };
    const path = `${pathOf(mirror)}/status`;
    const { body } = await api.request({
      method: 'PATCH',
      path,
      query: { fieldManager: FIELD_MANAGER },
      body: JSON.stringify({ metadata: { uid: mirror.metadata.uid }, status: { ...status, ...forgotten } }),
      contentType: MERGE_PATCH,
      signal,
    });
    this.#written.set(rule, { uid: mirror.metadata.uid, status });
    mirrors.learn(parseJson(body, `the answer to PATCH ${path}`) as KubeObject);
  }

  /** Every copy is gone that had to go: the mirror may go too. */
  async #letGo(mirror: SecretMirror, signal: AbortSignal): Promise<void> {
    const finalizers = mirror.metadata.finalizers ?? [];
    if (!finalizers.includes(SECRET_MIRROR_FINALIZER)) return;
    const { uid, resourceVersion } = mirror.metadata;
    const rest = finalizers.filter((finalizer) => finalizer !== SECRET_MIRROR_FINALIZER);
    try {
      await this.#options.api.request({
        method: 'PATCH',
        path: pathOf(mirror),
        query: { fieldManager: FIELD_MANAGER },
        body: JSON.stringify({ metadata: { uid, resourceVersion, finalizers: rest } }),
        contentType: MERGE_PATCH,
        signal,
      });
    } catch (error) {
      if (!isObjectGone(error, mirror.metadata.name)) throw error;
    }
  }
}

/** A copy of a mirror that is being deleted has gone, or is marked so that it stays. */
function isLetGo({ claim, outcome }: Entry): boolean {
  if (claim.shape instanceof RetainShape) return outcome.state !== 'pending' && outcome.state !== 'error';
  return outcome.state === 'released';
}

/**
 * Whether a copy that is still there need not be waited for when the time is over: its deletion was tried, so that it goes as an
 * orphan when it can. One that is to stay but is not marked so yet would then be deleted against its user's word.
 */
function mayBeLeft({ claim, outcome }: Entry): boolean {
  return !(claim.shape instanceof RetainShape) && !isUnderWay(outcome);
}

/** A mirror that goes without some of its copies says so. */
function sparedEvents(entries: readonly Entry[]): MirrorEvent[] {
  const spared = entries.filter(({ outcome }) => outcome.reason === SPARED.reason);
  if (spared.length === 0) return [];
  const namespaces = new Set(spared.map(({ claim }) => parseResourceKey(claim.target).namespace));
  const message = `the copy in ${places([...namespaces].sort())} is not deleted: ${SPARED.message}`;
  return [{ type: 'Warning', reason: SPARED.reason, message }];
}

function pathTo(namespace: string, name: string): string {
  return `/apis/${MIRRORS_GROUP}/${MIRRORS_VERSION}/namespaces/${encodeURIComponent(namespace)}/${SECRET_MIRROR_PLURAL}/${encodeURIComponent(name)}`;
}

function ruleOf({ metadata }: SecretMirror): RuleKey {
  return mirrorRule(metadata.namespace ?? '', metadata.name);
}

function pathOf({ metadata }: SecretMirror): string {
  return pathTo(metadata.namespace ?? '', metadata.name);
}
