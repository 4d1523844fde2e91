/**
 * The rule reconciler of SecretMirrors: prepares a mirror (`preparation.ts`), turns it into claims (`evaluation.ts`) and writes its
 * status (`status-update.ts`).
 */
import type { KubeApi } from '../../kube/api.ts';
import { orAborted } from '../../runtime/abort.ts';
import type { RunResult } from '../../runtime/queue/keyed-queue-options.ts';
import type { Steps } from '../../runtime/slices.ts';
import { type Cause, userCause } from '../../copy/model/cause.ts';
import type { Entry } from '../../copy/plan/claim-book.ts';
import { type ResourceKey, parseResourceKey, type RuleKey } from '../../copy/model/keys.ts';
import { isMarkedElsewhere } from '../../copy/plan/marks.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { EngineView, Evaluation, Preparation, RuleProgress, RuleReconciler } from '../../copy/rule-reconciler.ts';
import { liveRules } from '../common/live-rules.ts';
import type { PatternCache } from '../common/namespace-patterns.ts';
import { RuleClient } from '../common/rule-client.ts';
import { ruleName } from '../common/rule-store.ts';
import { MIRROR_ANNOTATIONS, MIRRORS_CONTROLLER, SECRET_MIRRORS } from './api.ts';
import { MirrorEvaluation, type MirrorEvaluationOptions } from './evaluation.ts';
import { MirrorPreparation, type MirrorPreparationOptions } from './preparation.ts';
import { COPY_LABEL, RETAIN_ANNOTATION } from './shape.ts';
import { SpecCache, sourceSecretOf, type SpecOptions } from './spec.ts';
import { type MirrorStatusOptions, MirrorStatusUpdate } from './status-update.ts';

type PartOptions = MirrorEvaluationOptions & MirrorPreparationOptions & MirrorStatusOptions;

export interface MirrorReconcilerOptions extends Omit<PartOptions, 'specs' | 'evaluation' | 'client'> {
  readonly api: KubeApi;
  readonly patterns: PatternCache;
  readonly specOptions?: SpecOptions | undefined;
  /** Settles when the mirrors and all copies have been listed. */
  readonly synced: () => Promise<unknown>;
  /** A mirror was deleted. */
  readonly onGone: (mirror: string) => void;
  /** A namespace was added or deleted, and some mirrors are not evaluated with it yet. */
  readonly isNamespacePending?: () => boolean;
}

export class MirrorReconciler implements RuleReconciler {
  readonly name = MIRRORS_CONTROLLER;
  readonly getLive: RuleReconciler['getLive'];
  readonly #options: MirrorReconcilerOptions;
  readonly #specs: SpecCache;
  readonly #preparation: MirrorPreparation;
  readonly #evaluation: MirrorEvaluation;
  readonly #status: MirrorStatusUpdate;

  constructor(options: MirrorReconcilerOptions) {
    this.#options = options;
    this.#specs = new SpecCache(options.patterns, options.specOptions);
    const { api, mirrors: store } = options;
    const client = new RuleClient({ api, kind: SECRET_MIRRORS, store });
    this.getLive = liveRules(
      async (rule, signal) => store.versionOf(await client.get(ruleName(rule), signal)),
      () => options.isNamespacePending?.() === true,
    );
    const common = { ...options, client, specs: this.#specs };
    this.#preparation = new MirrorPreparation(common);
    this.#evaluation = new MirrorEvaluation(common);
    this.#status = new MirrorStatusUpdate({ ...common, evaluation: this.#evaluation });
  }

  /** The mirrors that select a namespace. */
  *rulesFor(namespace: string): Steps<readonly RuleKey[]> {
    const rules: RuleKey[] = [];
    for (const [rule, mirror] of this.#options.mirrors.all()) {
      if (this.#specs.get(mirror).namespaces.has(namespace)) rules.push(rule);
      yield;
    }
    return rules;
  }

  /** @see MirrorEvaluation.recount */
  recount(): void {
    this.#evaluation.recount();
  }

  /** @see MirrorEvaluation.refusalOf */
  refusalOf(rule: RuleKey): string | undefined {
    return this.#evaluation.refusalOf(rule);
  }

  /** The Secrets that a mirror copies from. */
  secretsOf(rule: RuleKey): ResourceKey[] {
    const mirror = this.#options.mirrors.get(rule);
    if (mirror === undefined || mirror.metadata.deletionTimestamp !== undefined) return [];
    // Without the effective spec: its patterns may take long to compile, and at the start many mirrors come at once.
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

  async listed(_rule: RuleKey, signal: AbortSignal): Promise<void> {
    // The copies of a mirror are only known after the list of all copies.
    await orAborted(this.#options.synced(), signal, 'waiting for the list of copies');
  }

  preparationOf(rule: RuleKey): Preparation | undefined {
    return this.#preparation.needed(rule);
  }

  async prepare(rule: RuleKey, signal: AbortSignal): Promise<void> {
    await this.#preparation.prepare(rule, signal);
  }

  evaluate(rule: RuleKey, view: EngineView): Steps<Evaluation | undefined> {
    return this.#evaluation.evaluate(rule, view);
  }

  ownerOf({ annotations }: Observed, target: ResourceKey): RuleKey | undefined {
    const mark = annotations[MIRROR_ANNOTATIONS.ownedBy];
    if (mark === undefined) return undefined;
    const place = parseResourceKey(target);
    // Mirrors create only Secrets, and only in this cluster.
    if (this.#options.secretKey(place.namespace, place.name) !== target) return undefined;
    if (isMarkedElsewhere(annotations, place)) return undefined;
    const [namespace, name, ...rest] = mark.split('/');
    if (!namespace || !name || rest.length > 0) return undefined;
    return this.#options.mirrors.key(namespace, name);
  }

  orphanPolicy(rule: RuleKey, observed: Observed, ruleThere: boolean): 'delete' | 'keep' {
    // The mark on the copy counts, because its mirror may be gone or have another deletePolicy by now.
    if (observed.annotations[RETAIN_ANNOTATION] === 'true') return 'keep';
    // A copy of the original. The original may have retained it on purpose, and does not record that.
    if (observed.labels[COPY_LABEL] !== MIRRORS_CONTROLLER) return 'keep';
    const mirror = ruleThere ? this.#options.mirrors.get(rule) : undefined;
    if (mirror === undefined) return 'delete';
    // A mirror with a mistake keeps its copies, also a copy that appeared after its evaluation (restored from a backup).
    const { problems, deletePolicy } = this.#specs.get(mirror);
    if (this.refusalOf(rule) !== undefined || problems.length > 0) return 'keep';
    return deletePolicy === 'retain' ? 'keep' : 'delete';
  }

  problemOf(rule: RuleKey): Cause | undefined {
    const { mirrors, viewOf, vault } = this.#options;
    const mirror = mirrors.get(rule);
    if (mirror === undefined || mirror.metadata.deletionTimestamp !== undefined) return undefined;
    const spec = this.#specs.get(mirror);
    const problem = this.refusalOf(rule) ?? spec.problems[0];
    if (problem !== undefined) return userCause('InvalidSpec', problem);
    const source = this.#evaluation.sourceOf(rule, mirror, spec);
    const view = viewOf(source);
    if (view.state === 'failed' || view.state === 'missing') return view;
    return source === undefined ? undefined : vault?.trouble(source);
  }

  async updateStatus(
    rule: RuleKey,
    entries: Iterable<Entry>,
    progress: RuleProgress,
    signal: AbortSignal,
  ): Promise<RunResult | undefined> {
    const mirror = this.#options.mirrors.get(rule);
    if (mirror !== undefined) return await this.#status.update(rule, mirror, [...entries], progress, signal);
    this.#status.remove(rule);
    this.#preparation.remove(rule);
    this.#options.onGone(ruleName(rule));
    return undefined;
  }
}
