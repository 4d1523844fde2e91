/**
 * `keyferry migrate`: what a cluster with objects of other copiers needs, so that Keyferry takes them over. Writes only with `--apply`.
 *
 *   objects and marks ──▶ findings and changes ──▶ the decisions of Keyferry on the changed cluster ──▶ report ──▶ writes
 */
import { listerOf } from '../controllers/common/snapshot/list-permitted.ts';
import { Snapshot } from '../controllers/common/snapshot/snapshot.ts';
import { controllerReaders } from '../controllers/list.ts';
import { annotationNames } from '../controllers/replicator/annotations.ts';
import type { KubeApi } from '../kube/api.ts';
import { ApiError } from '../kube/errors.ts';
import { errorText } from '../observe/error-fields.ts';
import type { MigrateOptions } from './actions.ts';
import { EXIT_DONE, EXIT_FAILED, EXIT_LOSS_OR_REFUSAL } from './exit-codes.ts';
import { replicatorOf } from './migrate/annotated.ts';
import { CONFIG_SYNCER } from './migrate/config-syncer.ts';
import { type Foreign, foreignObjects } from './migrate/foreign.ts';
import { kubelbOf } from './migrate/kubelb.ts';
import { KUBERNETES_REPLICATOR } from './migrate/kubernetes-replicator.ts';
import { crdSteps, mirrorsOf } from './migrate/mirrors.ts';
import { type Change, type Found, type System, SYSTEMS, type View } from './migrate/model.ts';
import { otherKinds } from './migrate/other-kinds.ts';
import { REFLECTOR } from './migrate/reflector.ts';
import type { MigrationFinding, MigrationReport, MigrationSystem } from './migrate/report.ts';
import { type RunningProgram, runningPrograms } from './migrate/running.ts';
import { startOf } from './migrate/start.ts';
import { migrationText } from './migrate/text.ts';
import { assumed, Writer } from './migrate/writes.ts';
import { hasLossOrRefusal } from './plan/report.ts';
import { type Progress, withProgress } from './progress.ts';
import { requireReach } from './reach-notes.ts';
import { reportText } from './report-text.ts';
import type { Paint } from './styles.ts';

export interface MigrateContext {
  readonly api: KubeApi;
  readonly paint: Paint;
  readonly progress: Progress;
  /** Wall clock, ms. */
  readonly now: number;
  readonly signal?: AbortSignal;
}

const FOREIGN: Readonly<Partial<Record<System, Foreign>>> = {
  reflector: REFLECTOR,
  'kubernetes-replicator': KUBERNETES_REPLICATOR,
  'config-syncer': CONFIG_SYNCER,
};

/**
 * The text that the command prints, and its exit code.
 * @param cluster host of the API server
 * @throws Error if a right to read is missing, or if the other program still runs while its objects are to be changed; the errors of
 *   `api.request`
 */
export async function migrate(
  cluster: string,
  options: Omit<MigrateOptions, 'kubeconfig' | 'context'>,
  context: MigrateContext,
): Promise<{ readonly text: string; readonly code: number }> {
  using _ = context.progress;
  const { report } = await new Migration(cluster, options, context).run();
  const { output, apply } = options;
  const text = output === 'table' ? migrationText(report, apply, context.paint) : reportText(report, output);
  return { text, code: exitCodeOf(report) };
}

class Migration {
  readonly #cluster: string;
  readonly #options: Omit<MigrateOptions, 'kubeconfig' | 'context'>;
  readonly #context: MigrateContext;

  constructor(cluster: string, options: Omit<MigrateOptions, 'kubeconfig' | 'context'>, context: MigrateContext) {
    this.#cluster = cluster;
    this.#options = options;
    this.#context = context;
  }

  async run(): Promise<{ readonly report: MigrationReport }> {
    const { api, signal } = this.#context;
    const { from, apply } = this.#options;
    const running = await runningPrograms(api, signal);
    const programs = typeof running === 'string' ? [] : running;
    if (apply) refuseWhileRunning(programs, from);
    // Before the lists: without them the SecretMirrors may not be readable.
    const steps = this.#includes('mirrors') ? await crdSteps(api, signal) : [];
    const writer = new Writer(api, apply, signal);
    const done = await writer.steps(steps);
    const before = await this.#firstSnapshot(done);
    const found = await this.#find(before);
    const changes = [...found.values()].flatMap((one) => one.changes);
    const after = changes.length === 0 ? before : await this.#snapshot(changes);
    const start = await startOf(after);
    const systems: MigrationSystem[] = [];
    for (const [system, one] of found) {
      const here = programs.filter((program) => program.system === system).map(({ deployment }) => deployment);
      const findings = [
        ...(system === 'mirrors' ? done : []),
        ...(await writer.changes(one.changes, start.different, before.inventory.objects)),
        ...one.findings.map((finding) => ({ ...finding, annotations: null, result: null, error: null })),
      ];
      if (one.rules + one.copies + here.length + findings.length === 0) continue;
      systems.push({ system, rules: one.rules, copies: one.copies, running: here, findings });
    }
    const kept = new Set(
      changes
        .filter(({ object, source }) => source !== undefined && start.different.has(object))
        .map(({ object }) => object),
    );
    return {
      report: {
        apiVersion: 'keyferry.dev/v1',
        kind: 'Migration',
        cluster: this.#cluster,
        systems,
        targets: start.rows.filter(({ target }) => !kept.has(target)).map(({ row }) => row),
        unchanged: start.unchanged,
        notes: typeof running === 'string' ? [`which programs run is not known: ${running}`] : [],
      },
    };
  }

  #includes(system: System): boolean {
    return this.#options.from === undefined || this.#options.from === system;
  }

  /** @param steps the writes to the CRD. @throws Error with the cause if SecretMirrors cannot be listed because of it */
  async #firstSnapshot(steps: readonly MigrationFinding[]): Promise<Snapshot> {
    const failed = steps.find(({ result }) => result === 'failed');
    if (failed !== undefined) throw new Error(`${failed.object.name}: ${failed.text}: ${failed.error ?? ''}`);
    try {
      return await this.#snapshot();
    } catch (error) {
      if (steps.length === 0 || !(error instanceof ApiError) || error.status < 500) throw error;
      const advice = 'run keyferry migrate --from mirrors --apply, which removes the conversion webhook';
      throw new Error(`${errorText(error)}; ${advice}`, { cause: error });
    }
  }

  async #snapshot(changes: readonly Change[] = []): Promise<Snapshot> {
    const { api, now, signal, progress } = this.#context;
    const { config } = this.#options;
    const controllers = await controllerReaders();
    const lister = withProgress(listerOf(api), progress);
    const snapshot = await Snapshot.at({ api, lister, config, controllers, changes: assumed(changes), now, signal });
    requireReach(snapshot.inventory, (kind) => kind !== 'ExternalSecret', '; the command reads the whole cluster');
    return snapshot;
  }

  async #find({ inventory }: Snapshot): Promise<Map<System, Found>> {
    const { api, signal } = this.#context;
    const { config } = this.#options;
    const view: View = {
      objects: inventory.objects,
      namespaces: [...inventory.namespaces.names()].toSorted(),
      names: annotationNames(config.replicator.annotationsPrefix),
    };
    const found = new Map<System, Found>();
    for (const system of SYSTEMS.filter((one) => this.#includes(one))) {
      const foreign = FOREIGN[system];
      if (foreign !== undefined) found.set(system, foreignObjects(foreign, view));
      else if (system === 'mirrors') found.set(system, await mirrorsOf(api, view, config, signal));
      else if (system === 'kubelb') found.set(system, await kubelbOf(api, signal));
      else found.set(system, replicatorOf(view));
    }
    const mittwald = found.get('kubernetes-replicator');
    if (mittwald !== undefined) {
      const findings = [...mittwald.findings, ...(await otherKinds(api, signal))];
      found.set('kubernetes-replicator', { ...mittwald, findings });
    }
    return found;
  }
}

/** Two programs that write the same copies overwrite each other's marks. @throws Error */
function refuseWhileRunning(programs: readonly RunningProgram[], from: System | undefined): void {
  const first = programs.find(({ system }) => system === from && FOREIGN[system] !== undefined);
  if (first === undefined) return;
  const [namespace = '', name = ''] = first.deployment.split('/');
  throw new Error(
    `${first.system} still runs (Deployment ${first.deployment}); stop it first: kubectl scale -n ${namespace} deployment/${name} --replicas=0`,
  );
}

function exitCodeOf({ systems, targets }: MigrationReport): number {
  const findings = systems.flatMap((one) => one.findings);
  if (findings.some(({ result }) => result === 'failed')) return EXIT_FAILED;
  const needsHelp = findings.some(({ verdict }) => verdict === 'manual' || verdict === 'unsupported');
  return needsHelp || hasLossOrRefusal({ targets, problems: [] }) ? EXIT_LOSS_OR_REFUSAL : EXIT_DONE;
}
