/**
 * The generator puts random values into Vault for ExternalSecrets whose values do not exist yet. It copies nothing, so
 * it has no claims, but a queue and a worker (`run/worker.ts`) of its own. An author names the Vault server, which may
 * never answer, so namespaces take turns and share the runs.
 */
import type { Controller, RuleKind } from '../../copy/engine/controller.ts';
import { RuleClient } from '../../copy/engine/life/rule-client.ts';
import { RuleStore } from '../../copy/engine/life/rule-store.ts';
import { because, type Cause, nobodyCause } from '../../copy/model/cause.ts';
import { PENDING, rankOf } from '../../copy/model/claim.ts';
import { namespaceOf, type RuleKey, ruleName, ruleOfLogin } from '../../copy/model/keys.ts';
import { missingCredential } from '../../copy/vault/access/login-tokens.ts';
import { isForbidden } from '../../kube/errors.ts';
import type { ServedNamespaces } from '../../kube/watch/served-namespaces.ts';
import type { WatchGroup } from '../../kube/watch/watch-group.ts';
import type { WatchSink } from '../../kube/watch/watcher.ts';
import type { LogFields } from '../../observe/log.ts';
import { sleep } from '../../runtime/abort.ts';
import { KeyedQueue } from '../../runtime/queue/keyed-queue.ts';
import { isVaultError } from '../../vault/errors.ts';
import type { ControllerContext, ControllerEntry } from '../common/context.ts';
import { ESO_ADVICE, ESO_GROUP, GENERATOR } from './api.ts';
import {
  conditionModeOf,
  CRD_COLLECTION,
  EXTERNAL_SECRET_CRD,
  EXTERNAL_SECRETS,
  type EsoRights,
  rightsOf,
  ServedVersion,
} from './eso-api.ts';
import { type ConditionMode, type ExternalSecretRule, needOf, ruleOf } from './request/external-secret.ts';
import { WRONG_ANNOTATION } from './run/result.ts';
import { Worker } from './run/worker.ts';
import { Writes } from './run/writes.ts';
import { Stores } from './store/stores.ts';

export const generator: ControllerEntry = {
  name: GENERATOR,
  // Keyferry stores Secrets and ConfigMaps with the annotations that controllers read. The generator reads none.
  annotationReader: () => () => false,
  create,
};

/**
 * How many ExternalSecrets are served at the same time: each namespace may have one run more when others use all, so at
 * most 23. These runs share the connections to Vault and to the API server with the rest of Keyferry.
 */
const WORKERS = { concurrency: 12, share: 1 };
/** Longest pause before a retry, ms: a value is written within 20 s after Vault is back. */
const LONGEST_WAIT_MS = 12_000;
/** Longest pause while a policy, a login or a permission is missing, ms: a try takes 2 to 5 ms of CPU time. */
const REFUSED_WAIT_MS = 30_000;
/** Pause between two requests for the served version of ESO's API, ms. So Keyferry finds a new API within 5 s. */
const MISSING_RETRY_MS = 4000;
/** The same after a request that failed, ms. */
const FAILED_RETRY_MS = 2000;
/** Pause between two checks of the permission to list ExternalSecrets, ms. */
const PERMISSION_RETRY_MS = 15_000;

function create(context: ControllerContext): Controller {
  const { cluster, clock, config, engine, log, metrics, vault } = context;
  const { registry } = metrics;
  const served = new ServedVersion(cluster.api, log);
  let lacks: string | undefined = `${GENERATOR}: the server has not said yet whether it serves the API`;
  let mode: ConditionMode = 'unknown';

  const kindOf = (): RuleKind => served;
  const queue = new KeyedQueue<RuleKey>({
    name: GENERATOR,
    groupOf: namespaceOf,
    clock,
    retryMaxMs: REFUSED_WAIT_MS,
    retryMaxMsOf: (error) => (isRefusal(error) ? undefined : LONGEST_WAIT_MS),
    onError: (rule, error, retryInMs) => {
      // The author of the ExternalSecret finds all other failures in its result, so they are logged only as debug.
      const level = isForbidden(error) && error.call.method === 'PATCH' ? 'warn' : 'debug';
      log[level]('generating a value failed, retrying', { rule, error, retryInMs });
    },
  });
  const store = new RuleStore<ExternalSecretRule>({
    controller: GENERATOR,
    toRule: (object) => ruleOf(object, config.generator.all),
    versionOf: ({ version }) => version,
    onChange: (rule) => {
      engine.enqueueRule(rule);
      queue.add(rule);
    },
  });
  const stores = new Stores(context, ({ kind, name }, namespace) => {
    for (const [key, { metadata, requests }] of store.all()) {
      if (namespace !== '' && metadata.namespace !== namespace) continue;
      if (requests.wanted.some(({ store }) => store.kind === kind && store.name === name)) queue.add(key);
    }
  });
  const worker = new Worker({
    rule: (key) => store.get(key),
    mode: () => mode,
    stores,
    vault: vault.directAccess((user) => queue.add(ruleOfLogin(user))),
    book: engine.book,
    writes: new Writes({
      client: new RuleClient(cluster.api, kindOf, true),
      store,
      mode: () => mode,
      recordEvent: ({ metadata: { name, namespace = '', uid } }, { created, reason, message }) => {
        const subject = { apiVersion: served.apiVersion, kind: 'ExternalSecret', namespace, name, uid };
        context.recordEvent({ subject, type: created ? 'Normal' : 'Warning', reason, message });
      },
      registry,
    }),
    registry,
    clock,
    log,
  });
  registry.value('keyferry_generator_failing', 'ExternalSecrets that wait for a value.', () => {
    return [...store.all()].filter(([, rule]) => needOf(rule, mode) === 'values').length;
  });

  /** Why ESO cannot read the values of an ExternalSecret; `undefined`: no reason is known. */
  const problemOf = (key: RuleKey): Cause | undefined => {
    const rule = store.get(key);
    const need = rule && needOf(rule, mode);
    if (rule === undefined || need === undefined) return undefined;
    if (need === 'setting') return because('ErrorAnnotation', WRONG_ANNOTATION);
    if (need !== 'values') return undefined;
    const { reason, message } = rule.result ?? PENDING;
    return { ...nobodyCause(reason, message), fault: worker.faultOf(key) };
  };

  const setMode = (next: ConditionMode): void => {
    if (next === mode) return;
    mode = next;
    for (const [key] of store.all()) queue.add(key);
  };
  /** Watches the CRD of ExternalSecrets, because its schema shows whether the condition `Created` is allowed. */
  const watchCrd = (): WatchGroup => {
    const target = {
      collection: 'customresourcedefinitions',
      scope: 'externalsecrets',
      path: CRD_COLLECTION,
      fieldSelector: `metadata.name=${EXTERNAL_SECRET_CRD}`,
      metadataOnly: false,
    };
    return cluster.watch(target, {
      upsert: (crd) => {
        setMode(conditionModeOf(crd));
        return true;
      },
      remove: () => {
        setMode('unknown');
      },
      prune: (keys) => {
        if (keys.size === 0) setMode('unknown');
      },
    });
  };
  /** An ExternalSecret whose store is not listed yet would get the result that the store does not exist. */
  const open = async (signal: AbortSignal): Promise<void> => {
    const rights = await findRights(context, served, (what) => (lacks = what), signal);
    const custom = served.custom(config.controllersNamed, signal);
    const watch = (plural: string, sink: WatchSink, namespaces?: ServedNamespaces): WatchGroup => {
      const target = {
        collection: plural,
        get path() {
          return `${served.groupPath}/${plural}`;
        },
        metadataOnly: false,
      };
      return cluster.watch(target, sink, { custom }, namespaces);
    };
    stores.rights = rights;
    const first: WatchGroup[] = [];
    if (rights.crd) first.push(watchCrd());
    if (rights.stores) first.push(watch('secretstores', stores.sinkOf('SecretStore'), rights.namespaces));
    if (rights.clusterStores) first.push(watch('clustersecretstores', stores.sinkOf('ClusterSecretStore')));
    await Promise.all(first.map(async ({ synced }) => await synced));
    const { synced } = watch(EXTERNAL_SECRETS, store.sink, rights.namespaces);
    lacks = undefined;
    log.info('info: started watching ExternalSecrets.', { version: served.version });
    await synced;
  };

  return {
    // Rules without claims: the values are made by workers of their own, and told by `Writes`.
    rules: {
      name: GENERATOR,
      evaluate: (key) => {
        const rule = store.get(key);
        if (rule === undefined) return undefined;
        const { creationTimestamp, uid } = rule.metadata;
        const owner = { key, title: `ExternalSecret ${ruleName(key)}`, rank: rankOf(creationTimestamp, uid) };
        return { owner, version: rule.version, claims: [], sources: [] };
      },
      markOn: () => undefined,
      orphanPolicy: () => 'keep',
      problemOf,
    },
    store,
    kindOf,
    report: () => undefined,
    open,
    work: {
      get lacks() {
        return lacks;
      },
      start: () => {
        queue.start(async (key, signal) => await worker.run(key, signal), WORKERS);
      },
      drain: async (drainMs) => {
        await queue.stop({ drainMs });
      },
      queues: [{ name: GENERATOR, queue }],
    },
  };
}

/** Whether all retries fail until a person acts. */
function isRefusal(error: unknown): boolean {
  return isForbidden(error) || missingCredential(error) !== undefined || (isVaultError(error) && !error.transient);
}

/**
 * Waits until the CRDs of ESO exist and Keyferry has permission to list ExternalSecrets. Most clusters lack the CRDs,
 * so the process becomes ready without the generator.
 * @param lacking told what the generator lacks, if the process is not ready without it @throws the reason of `signal`
 */
async function findRights(
  context: ControllerContext,
  served: ServedVersion,
  lacking: (what: string | undefined) => void,
  signal: AbortSignal,
): Promise<EsoRights> {
  const { config, log } = context;
  const missing = `${EXTERNAL_SECRETS}: the API ${ESO_GROUP} is not installed; ${ESO_ADVICE}`;
  let logged: string | undefined;
  const tell = (level: 'info' | 'warn', text: string, fields: LogFields, problem = text): void => {
    if (problem !== logged) log[level](text, { controller: GENERATOR, ...fields });
    logged = problem;
  };
  for (;;) {
    let waitMs = FAILED_RETRY_MS;
    let isServed = false;
    try {
      isServed = await served.refresh(signal);
      const rights = isServed ? await rightsOf(context, served.groupPath, signal) : undefined;
      if (rights !== undefined) return rights;
      lacking(isServed || !config.controllersNamed ? undefined : missing);
      const advice = 'apply deploy/rbac-generator.yaml, or leave the generator out of --controllers';
      if (isServed) tell('warn', 'no permission to list ExternalSecrets, the generator waits for it', { advice });
      else tell('info', 'API is not installed, waiting for it', { advice: ESO_ADVICE });
      waitMs = isServed ? PERMISSION_RETRY_MS : MISSING_RETRY_MS;
    } catch (error) {
      signal.throwIfAborted();
      if (isServed) lacking(undefined);
      tell('warn', 'API discovery failed, retrying', { error }, String(error));
    }
    await sleep(waitMs, signal);
  }
}
