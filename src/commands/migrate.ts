/**
 * `keyferry migrate` shows what must change before Keyferry takes over the objects of other copiers. It writes the
 * changes only with `--apply`.
 *
 *   objects and marks ──▶ findings and changes ──▶ what Keyferry would then do in the cluster ──▶ report ──▶ writes
 */
import type { MigrationReport } from '../../scripts/reports/schemas.ts';
import { heldBy, orphansIn, type OrphanStatus } from './snapshot/status-report.ts';
import type { Snapshot } from './snapshot/snapshot.ts';
import type { MigratedProgram } from '../config/migrated-programs.ts';
import type { Change, Finding, ProgramFindings, ProgramReader } from './migrate/program.ts';
import { PROGRAMS } from './migrate/programs.ts';
import { controllerOf, type ResourceKey } from '../copy/model/keys.ts';
import { CONFIG_MAP } from '../copy/model/kind.ts';
import { ApiError } from '../kube/errors.ts';
import { errorText } from '../observe/error-fields.ts';
import { command } from '../runtime/text/command.ts';
import type { MigrateOptions } from './actions.ts';
import { exitCodeOf, type MigrationFinding, type MigrationProgram, migrationText } from './migrate/report.ts';
import { assumed, refuseWhileRunning, runningPrograms, Writer } from './migrate/writes.ts';
import { type CommandContext, type CommandResult, readSnapshot, requireKinds } from './output/reading.ts';
import { reportText } from './output/text.ts';
import type { Entry } from '../copy/book/claim-book.ts';
import type { Decision } from '../copy/plan/decide.ts';
import { type PlannedTarget, rowsOn } from './plan/rows.ts';

/**
 * @throws Error: a permission is missing, or a program still runs although `--apply` would change its objects; and the
 * errors of `api.request`
 */
export async function migrate(context: CommandContext, options: MigrateOptions): Promise<CommandResult> {
  const report = await new Migration(context, options).run();
  const { output } = options;
  const text = output === 'table' ? migrationText(report, options, context.paint) : reportText(report, output);
  return { text, code: exitCodeOf(report) };
}

class Migration {
  readonly #options: MigrateOptions;
  readonly #context: CommandContext;

  constructor(context: CommandContext, options: MigrateOptions) {
    this.#options = options;
    this.#context = context;
  }

  async run(): Promise<MigrationReport> {
    const { api, signal } = this.#context;
    const { from, apply, deleteLeftovers } = this.#options;
    const readers = PROGRAMS.filter(({ program }) => from === undefined || from === program);
    const running = await runningPrograms(api, readers, signal);
    if (apply) refuseWhileRunning(running, deleteLeftovers);
    const writer = new Writer(this.#context, apply);
    const prepared = await this.#prepare(readers, writer);
    const before = await this.#firstSnapshot(prepared);
    const found = await this.#find(readers, before);
    const changes = [...found.values()].flatMap((one) => one.changes);
    const after = changes.length === 0 ? before : await this.#snapshot(changes);
    const start = await startOf(after, (target) => from === undefined || isOf(found, after.claims.book.on(target)));
    const programs: MigrationProgram[] = [];
    for (const [{ program }, one] of found) {
      const here = running.filter((other) => other.reader.program === program);
      const findings = [
        ...(prepared.get(program) ?? []),
        ...(await writer.changes(one.changes, start.different, before.inventory.objects)),
        ...one.findings.map((finding) => ({ ...finding, annotations: null, result: null, error: null })),
      ];
      const { rules, copies } = one;
      if (rules + copies + here.length + findings.length === 0) continue;
      programs.push({ program, rules, copies, running: here.map(({ deployment }) => deployment), findings });
    }
    if (deleteLeftovers) await this.#deleteLeftovers(programs, readers, before, writer);
    // Keyferry does not take over a copy whose data would change, so such a copy gets no row.
    const left = new Set(changes.flatMap(({ object, source }) => (source === undefined ? [] : object)));
    const rows = start.rows.filter(({ target }) => !(left.has(target) && start.different.has(target)));
    return {
      apiVersion: 'keyferry.dev/v1',
      kind: 'Migration',
      cluster: this.#context.cluster,
      programs,
      targets: rows.map(({ row }) => row),
      unchanged: start.unchanged,
      notes: [],
    };
  }

  async #prepare(
    readers: readonly ProgramReader[],
    writer: Writer,
  ): Promise<ReadonlyMap<MigratedProgram, readonly MigrationFinding[]>> {
    const { api, signal } = this.#context;
    const prepared = new Map<MigratedProgram, readonly MigrationFinding[]>();
    for (const { program, prepare } of readers) {
      const steps = await prepare?.(api, signal);
      if (steps !== undefined && steps.length > 0) prepared.set(program, await writer.steps(steps));
    }
    return prepared;
  }

  /** @throws Error: a step of `prepared` failed, or objects cannot be listed before such a step is done */
  async #firstSnapshot(prepared: ReadonlyMap<MigratedProgram, readonly MigrationFinding[]>): Promise<Snapshot> {
    const steps = [...prepared.values()].flat();
    const failed = steps.find(({ result }) => result === 'failed');
    if (failed !== undefined) throw new Error(`${failed.object.name}: ${failed.text}: ${failed.error ?? ''}`);
    try {
      return await this.#snapshot();
    } catch (error) {
      const [program] = prepared.keys();
      if (program === undefined || !(error instanceof ApiError) || error.status < 500) throw error;
      const why = steps.map(({ object, text }) => `${object.name}: ${text}`).join('; ');
      throw new Error(`${errorText(error)}. ${command(`migrate --from ${program} --apply`)} helps: ${why}`, {
        cause: error,
      });
    }
  }

  /** Prints the leftovers, and lists all objects again. Deletes those that are leftovers by the new lists, too. */
  async #deleteLeftovers(
    programs: MigrationProgram[],
    readers: readonly ProgramReader[],
    before: Snapshot,
    writer: Writer,
  ): Promise<void> {
    const { progress, stderr } = this.#context;
    const leftovers = programs.flatMap(({ findings }) => findings.filter(({ verdict }) => verdict === 'leftover'));
    progress.end();
    for (const { object, text } of leftovers)
      stderr(`deletes ${object.kind} ${object.namespace}/${object.name}: ${text}\n`);
    const now = await this.#find(readers, await this.#snapshot());
    const still = [...now.values()].flatMap(({ findings }) => findings.filter(({ verdict }) => verdict === 'leftover'));
    const places = new Set(still.map(({ object }) => JSON.stringify(object)));
    for (const [index, program] of programs.entries()) {
      const findings: MigrationFinding[] = [];
      for (const one of program.findings) {
        const isStill = places.has(JSON.stringify(one.object));
        findings.push(one.verdict === 'leftover' ? await writer.deletion(one, isStill, before.inventory.objects) : one);
      }
      programs[index] = { ...program, findings };
    }
  }

  async #snapshot(changes: readonly Change[] = []): Promise<Snapshot> {
    const snapshot = await readSnapshot(this.#context, { config: this.#options.config, changes: assumed(changes) });
    // An object that is not read may use a leftover that the command would delete, above all a rule with content.
    const contents = [...snapshot.readers.values()].flatMap(
      (one) => (one.collection?.content && one.collection.kind) ?? [],
    );
    requireKinds(snapshot, [CONFIG_MAP.kind, ...contents]);
    return snapshot;
  }

  async #find(readers: readonly ProgramReader[], snapshot: Snapshot): Promise<Map<ProgramReader, ProgramFindings>> {
    const { api, signal } = this.#context;
    const { config } = this.#options;
    const { objects, namespaces } = snapshot.inventory;
    const orphans = await orphansIn(snapshot);
    const context = {
      api,
      config,
      objects,
      namespaces: [...namespaces.names()].toSorted(),
      heldBy: (object: ResourceKey) => heldBy(snapshot, object),
      copiedBy: (object: ResourceKey) => {
        return [...snapshot.claims.book.from(object)].find(({ claim }) => claim.mode === 'own')?.claim.owner.title;
      },
      signal,
    };
    const found = new Map<ProgramReader, ProgramFindings>();
    for (const reader of readers) {
      const one = await reader.find(context);
      found.set(reader, { ...one, findings: [...one.findings, ...leftoversOf(reader, orphans)] });
    }
    return found;
  }
}

/** The leftovers of a program. Only a program whose marks one of Keyferry's controllers reads has any. */
function leftoversOf({ controller }: ProgramReader, orphans: readonly OrphanStatus[]): Finding[] {
  return orphans.flatMap(({ system, kind, namespace, name, owner, verdict, reason }) => {
    if (system !== controller || verdict === undefined) return [];
    return { verdict, object: { kind, namespace, name }, text: `marked by ${owner}: ${reason}` };
  });
}

export interface Start {
  /** Copies that Keyferry would make, change or delete at its start, and rules that lose a target to another rule. */
  readonly rows: readonly { readonly target: ResourceKey; readonly row: PlannedTarget }[];
  /** Targets whose data Keyferry would replace or delete, or that it would not touch, each with the reason. */
  readonly different: ReadonlyMap<ResourceKey, string>;
  /** Number of copies that keep their data. Some get labels and annotations of Keyferry. */
  readonly unchanged: number;
}

type Rows = ReturnType<typeof rowsOn>;

/** Whether a target belongs to one of the programs. A target that no rule claims counts, because it may. */
function isOf(found: Iterable<readonly [ProgramReader, ProgramFindings]>, entries: readonly Entry[]): boolean {
  const isOurs = [...found].some(([{ controller }, { concerns = () => false }]) =>
    entries.some(({ target, claim: { owner, source = target } }) => {
      return controllerOf(owner.key) === controller || concerns(source) || concerns(target);
    }),
  );
  return isOurs || entries.length === 0;
}

/** What Keyferry would do at its start. @param isAsked whether `--from` includes this target */
export async function startOf(snapshot: Snapshot, isAsked: (target: ResourceKey) => boolean): Promise<Start> {
  const targets = new Set([...targetsIn(snapshot)].filter((target) => isAsked(target)));
  await snapshot.decide(targets);
  const rows: { target: ResourceKey; row: PlannedTarget }[] = [];
  const different = new Map<ResourceKey, string>();
  let unchanged = 0;
  for (const target of [...targets].toSorted()) {
    const { plan } = snapshot.decisionOn(target);
    const { main, losers } = withoutAdvice(snapshot, target, rowsOn(snapshot, target));
    if (main.action === 'nothing' || keepsData(plan)) unchanged += 1;
    else {
      rows.push({ target, row: main });
      if (main.action !== 'create' && main.action !== 'wait') different.set(target, main.reason);
    }
    for (const { row } of losers) rows.push({ target, row });
  }
  return { rows, different, unchanged };
}

/** Does not advise to delete an object that is in the way, because another program may still use it. */
function withoutAdvice({ claims, inventory }: Snapshot, target: ResourceKey, rows: Rows): Rows {
  const observed = inventory.objects.get(target);
  if (observed === undefined || claims.ownerOf(observed, target) !== undefined) return rows;
  const reason = 'the object already exists and is not managed by Keyferry, so it stays as it is';
  const own = (row: PlannedTarget): PlannedTarget => (row.action === 'conflict' ? { ...row, reason } : row);
  return { main: own(rows.main), losers: rows.losers.map(({ owner, row }) => ({ owner, row: own(row) })) };
}

/** The targets of all rules, and marked copies that no rule claims. */
function targetsIn({ rules, claims, inventory }: Snapshot): Set<ResourceKey> {
  const targets = new Set<ResourceKey>();
  for (const rule of rules.keys()) for (const { target } of claims.book.of(rule)) targets.add(target);
  for (const [key, observed] of inventory.objects) {
    if (claims.ownerOf(observed, key) !== undefined) targets.add(key);
  }
  return targets;
}

function keepsData(plan: Decision['plan']): boolean {
  return plan.do === 'update' && !plan.withData;
}
