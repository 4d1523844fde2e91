/**
 * The generator: puts random values into Vault for ExternalSecrets whose entry does not exist yet. The generator does not copy, so it has no
 * claims, but a queue for each Vault server (`run/queue.ts`) and one worker (`run/worker.ts`).
 */
import type { Controller, OwnWork, RuleReadiness, NamedQueue } from '../../copy/engine/controller.ts';
import { nobodyCause, userCause } from '../../copy/model/cause.ts';
import { PENDING } from '../../copy/model/claim.ts';
import { namespaceOf, type RuleKey, ruleOfLogin } from '../../copy/model/keys.ts';
import { vaultRetryAfterMs } from '../../copy/vault/access/access.ts';
import { isForbidden, retryAfterMs } from '../../kube/errors.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import { sleep } from '../../runtime/abort.ts';
import { apiInstalled } from '../common/crd-diagnosis.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { RuleClient } from '../common/rules/rule-client.ts';
import { RuleStore } from '../common/rules/rule-store.ts';
import { ESO_ADVICE, ESO_GROUP, GENERATOR } from './api.ts';
import {
  conditionModeOf,
  CRD_COLLECTION,
  EXTERNAL_SECRET_CRD,
  EXTERNAL_SECRETS,
  type Reach,
  reachOf,
  ServedVersion,
} from './eso-api.ts';
import { type ConditionMode, type ExternalSecretRule, needOf, ruleOf } from './request/external-secret.ts';
import type { StoreRef } from './request/requests.ts';
import { Lanes } from './run/queue.ts';
import { type Result, WRONG_ANNOTATION } from './run/result.ts';
import { Worker } from './run/worker.ts';
import { Writes } from './run/writes.ts';
import { Stores } from './store/stores.ts';

export const generator: ControllerEntry = {
  name: GENERATOR,
  // The generator reads annotations of ExternalSecrets only, which the stores of copies do not hold.
  annotationReader: () => () => false,
  create: (context) => new Generator(context),
  reader: async () => (await import('./reader.ts')).generatorReader,
};

/** The source component of events. */
const EVENT_COMPONENT = 'keyferry-generator';
/** ExternalSecrets that are worked on at once for each server. */
const CONCURRENCY = 8;
/** Longest wait between two tries, ms: a value is written within 20 s after Vault is back. Many refused ones wait longer. */
const LONGEST_WAIT_MS = 12_000;
/** Between two tries to find out what the API server serves and permits, ms. */
const DISCOVERY_RETRY_MS = 2000;
/** Between two looks whether ExternalSecrets may be listed, ms. */
const PERMISSION_RETRY_MS = 15_000;

class Generator implements Controller, OwnWork {
  readonly work = this;
  readonly #context: ControllerContext;
  readonly #served: ServedVersion;
  readonly #rules: RuleStore<ExternalSecretRule>;
  readonly #stores: Stores;
  readonly #lanes: Lanes;
  readonly #worker: Worker;
  #reach: Reach | undefined;
  #mode: ConditionMode = 'unknown';

  constructor(context: ControllerContext) {
    this.#context = context;
    const { cluster, clock, config, engine, log, metrics, vault } = context;
    const served = (this.#served = new ServedVersion(cluster.api));
    const { all } = config.generator;
    const rules = (this.#rules = new RuleStore<ExternalSecretRule>({
      controller: GENERATOR,
      toRule: (object) => ruleOf(object, all),
      versionOf: ({ version }) => version,
      onChange: (rule, initial) => {
        this.#lanes.add(rule, initial ? 'low' : 'normal');
      },
    }));
    const stores = (this.#stores = new Stores(
      context,
      () => this.#reach,
      (ref, namespace) => {
        this.#storeChanged(ref, namespace);
      },
    ));
    this.#lanes = new Lanes({
      laneOf: (rule) => this.#laneOf(rule),
      name: GENERATOR,
      concurrency: CONCURRENCY,
      clock,
      groupOf: namespaceOf,
      retryMaxMs: LONGEST_WAIT_MS,
      retryAfterMs: (error) => retryAfterMs(error) ?? vaultRetryAfterMs(error),
      onError: (rule, error, retryInMs) => {
        // Other failures are reported to the author.
        const level = isForbidden(error) && error.call.method === 'PATCH' ? 'warn' : 'debug';
        log[level]('generating a value failed, retrying', { rule, error, retryInMs });
      },
    });
    const mode = (): ConditionMode => this.#mode;
    const { registry } = metrics;
    this.#worker = new Worker({
      rule: (key) => rules.get(key),
      mode,
      stores,
      vault: vault.directAccess((user) => {
        this.#lanes.add(ruleOfLogin(user), 'normal');
      }),
      book: engine.book,
      writes: new Writes({
        client: new RuleClient({ api: cluster.api, kind: served, store: rules }),
        latest: (key) => rules.get(key),
        mode,
        recordEvent: (rule, result) => {
          this.#recordEvent(rule, result);
        },
        registry,
      }),
      registry,
      clock,
      log,
    });
    registry.value('keyferry_generator_failing', 'ExternalSecrets that wait for a value.', () => {
      return [...rules.all()].filter(([, rule]) => needOf(rule, this.#mode) === 'values').length;
    });
  }

  /**
   * Waits for the CRDs of ESO and for permission to list ExternalSecrets. Under `run` most operators have neither, and must be ready without
   * the generator.
   */
  async installed(signal: AbortSignal): Promise<void> {
    const { cluster, log } = this.#context;
    const path = `/apis/${ESO_GROUP}`;
    const awaited = { api: cluster.api, path, controller: GENERATOR, notInstalled: ESO_ADVICE, isOptional: true, log };
    for (let isTold = false; ;) {
      await apiInstalled(awaited, signal);
      let waitMs = DISCOVERY_RETRY_MS;
      try {
        if (await this.#served.refresh()) {
          this.#reach = await reachOf(this.#context, this.#served.groupPath, signal);
          if (this.#reach !== undefined) return;
          const advice = 'apply deploy/rbac-generator.yaml, or leave the generator out of --controllers';
          if (!isTold) log.warn('no permission to list ExternalSecrets, the generator waits for it', { advice });
          isTold = true;
          waitMs = PERMISSION_RETRY_MS;
        }
      } catch (error) {
        signal.throwIfAborted();
        log.warn('API discovery failed, retrying', { controller: GENERATOR, error });
      }
      await sleep(waitMs, signal);
    }
  }

  open(): void {
    const { cluster, config, log } = this.#context;
    const reach = this.#reach;
    if (reach === undefined) throw new Error('opened before the API was found');
    const served = this.#served;
    const watch = (plural: string, sink: WatchSink, namespaces?: readonly string[]): void => {
      const target = {
        collection: plural,
        get path() {
          return `${served.groupPath}/${plural}`;
        },
        metadataOnly: false,
        inPages: true,
      };
      cluster.watch(target, sink, served.diagnosis(config.controllersNamed), namespaces);
    };
    if (reach.crd) this.#watchCrd();
    if (reach.stores) watch('secretstores', this.#stores.sinkOf('SecretStore'), reach.namespaces);
    watch(EXTERNAL_SECRETS, this.#rules.sink, reach.namespaces);
    if (reach.clusterStores) watch('clustersecretstores', this.#stores.sinkOf('ClusterSecretStore'));
    log.info('info: started watching ExternalSecrets.', { version: served.version });
  }

  start(): void {
    this.#lanes.start(async (key, signal) => await this.#worker.run(key, signal));
  }

  async drain(drainMs: number): Promise<void> {
    await this.#lanes.stop(drainMs);
  }

  get queues(): readonly NamedQueue[] {
    return this.#lanes.all;
  }

  stop(): void {
    // Its watches are those of the cluster.
  }

  /** Follows the schema of the conditions. */
  #watchCrd(): void {
    const target = {
      collection: 'customresourcedefinitions',
      scope: 'externalsecrets',
      path: CRD_COLLECTION,
      fieldSelector: `metadata.name=${EXTERNAL_SECRET_CRD}`,
      metadataOnly: false,
    };
    const set = (mode: ConditionMode): void => {
      if (mode === this.#mode) return;
      this.#mode = mode;
      for (const [key] of this.#rules.all()) this.#lanes.add(key, 'low');
    };
    this.#context.cluster.watch(target, {
      upsert: (crd) => {
        set(conditionModeOf(crd));
        return true;
      },
      remove: () => {
        set('unknown');
      },
      prune: (keys) => {
        if (keys.size === 0) set('unknown');
      },
    });
  }

  /** The server of the values. Those of several servers share a lane of their namespace, so that a server without answers delays no other one. */
  #laneOf(key: RuleKey): string {
    const rule = this.#rules.get(key);
    if (rule === undefined || this.#reach?.stores !== true) return '';
    const { namespace = '' } = rule.metadata;
    const servers = new Set<string>();
    for (const { store } of rule.requests.wanted) {
      const { origin } = URL.parse(this.#stores.get(store, namespace)?.provider?.vault?.server ?? '') ?? {};
      if (origin !== undefined) servers.add(origin);
    }
    const [first = '', ...others] = servers;
    return others.length === 0 ? first : `several servers of ${namespace}`;
  }

  #storeChanged({ kind, name }: StoreRef, namespace: string): void {
    for (const [key, { metadata, requests }] of this.#rules.all()) {
      if (namespace !== '' && metadata.namespace !== namespace) continue;
      if (requests.wanted.some(({ store }) => store.kind === kind && store.name === name))
        this.#lanes.add(key, 'normal');
    }
  }

  #recordEvent({ metadata }: ExternalSecretRule, { created, reason, message }: Result): void {
    const { name, namespace = '', uid } = metadata;
    const subject = { apiVersion: this.#served.apiVersion, kind: 'ExternalSecret', namespace, name, uid };
    const type = created ? 'Normal' : 'Warning';
    const fields = { kind: subject.kind, namespace, name };
    this.#context.recordEvent(EVENT_COMPONENT, { subject, type, reason, message }, fields);
  }

  /** An ExternalSecret that is ready and was not helped before is no rule. */
  *readiness(): Iterable<RuleReadiness> {
    for (const [rule, object] of this.#rules.all()) yield { rule, cause: this.#causeOf(rule, object) };
  }

  /** Why ESO cannot read the values of an ExternalSecret, as far as the generator knows. */
  #causeOf(key: RuleKey, rule: ExternalSecretRule): RuleReadiness['cause'] {
    const need = needOf(rule, this.#mode);
    if (need === 'setting') return userCause('ErrorAnnotation', WRONG_ANNOTATION);
    if (need !== 'values') return undefined;
    const { reason, message } = rule.result ?? PENDING;
    return { ...nobodyCause(reason, message), fault: this.#worker.faultOf(key) };
  }
}
