/** The programs whose objects `migrate` reads, and what all commands say of them. */
import { type AnnotationNames, annotationNames, isAnnotated } from '../../controllers/replicator/rules/annotations.ts';
import type { ReadingConfig } from '../../config/config.ts';
import type { ResourceKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import { command } from '../../runtime/text/command.ts';
import type { ProgramReader } from './program.ts';
import { configSyncer } from './programs/config-syncer.ts';
import { foreignReader } from './programs/foreign.ts';
import { k8sReplicator } from './programs/k8s-replicator.ts';
import { kubelbMigration, offerOf } from './programs/kubelb.ts';
import { kubernetesReplicator, mittwald } from './programs/kubernetes-replicator.ts';
import { mirrorsMigration } from './programs/mirrors.ts';
import { reflector } from './programs/reflector.ts';
import { type Foreign, ForeignRequests } from './programs/requests.ts';

/** Programs whose annotations `keyferry migrate` translates into annotations of the replicator. */
export const FOREIGN: readonly Foreign[] = [reflector, mittwald, configSyncer];

/** In the order of the report of `migrate`. */
export const PROGRAMS: readonly ProgramReader[] = [
  mirrorsMigration,
  k8sReplicator,
  kubelbMigration,
  foreignReader(reflector),
  kubernetesReplicator,
  foreignReader(configSyncer),
];

/** What the objects of a cluster request from other programs. */
export class OtherPrograms {
  readonly #objects: ReadonlyMap<ResourceKey, Observed>;
  /** The names of Keyferry's annotations. */
  readonly #names: AnnotationNames;
  /** `undefined`: not read yet. */
  #requests: readonly ForeignRequests[] | undefined;

  constructor(objects: ReadonlyMap<ResourceKey, Observed>, { replicator }: ReadingConfig) {
    this.#objects = objects;
    this.#names = annotationNames(replicator.annotationsPrefix);
  }

  /** The rule of another program that makes, fills or uses an object; `undefined`: none is known. */
  heldBy(object: ResourceKey): string | undefined {
    const [foreign] = this.#all().flatMap((program) => program.heldBy(object) ?? []);
    return foreign ?? offerOf(this.#objects.get(object));
  }

  /** Names the programs whose annotations an object has, if it has none of Keyferry. */
  notesOn(object: ResourceKey): string[] {
    if (isAnnotated(this.#names, this.#objects.get(object)?.annotations)) return [];
    const programs = this.#all().flatMap((requests) => requests.programOn(object) ?? []);
    return programs.map(
      (name) => `has annotations of ${name}, which Keyferry does not read: ${command(`migrate --from ${name}`)}`,
    );
  }

  #all(): readonly ForeignRequests[] {
    return (this.#requests ??= FOREIGN.map((program) => new ForeignRequests(program, this.#objects)));
  }
}
