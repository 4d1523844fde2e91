/** Shared by the scenarios of mittwald: a cluster, an operator, and the annotations as users and the original write them. */
import type { ControlPlaneOptions } from '../../servers/control-plane.ts';
import { startControlPlane } from '../../servers/control-plane.ts';
import type { Json } from '../../support/api.ts';
import type { Keyferry, KeyferryOptions } from '../../support/keyferry.ts';
import { ReflectorScene } from '../reflector/support.ts';
import { annotation, type KindScene, KINDS, ReplicatorScene, SETTLE_MS } from '../replicator/support.ts';

export { KINDS, SETTLE_MS };
export type { KindScene };

export const PREFIX = 'replicator.v1.mittwald.de';

type Values = Readonly<Record<string, string>>;

/** `from`, `to`, `matching`, `allowed` and `allowed-namespaces` stand for the long names. */
const SHORT: Values = {
  from: 'replicate-from',
  to: 'replicate-to',
  matching: 'replicate-to-matching',
  allowed: 'replication-allowed',
  'allowed-namespaces': 'replication-allowed-namespaces',
};

export function annotations(values: Readonly<Record<string, string | null>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [
      name.includes('/') ? name : `${PREFIX}/${SHORT[name] ?? name}`,
      value as string,
    ]),
  );
}

/** The annotations of a source that everybody may pull from. */
export const OPEN: Values = { allowed: 'true', 'allowed-namespaces': '.*' };

export function mark(object: Json, name: string): string | undefined {
  return annotation(object, name, PREFIX);
}

export class MittwaldScene extends ReflectorScene {
  static override async open(options: ControlPlaneOptions = {}): Promise<MittwaldScene> {
    return new MittwaldScene(await startControlPlane({ controllerManager: false, ...options }));
  }

  override async started(args: readonly string[] = [], options: Partial<KeyferryOptions> = {}): Promise<Keyferry> {
    return await ReplicatorScene.prototype.started.call(this, args, { command: 'mittwald', ...options });
  }

  protected override annotations(given: Readonly<Record<string, string | null>>): Record<string, string> {
    return annotations(given);
  }

  /** Sets or removes keys; the others stay. */
  async set(users: KindScene, name: string, values: Readonly<Record<string, string | null>>): Promise<Json> {
    const [set, removed] = [new Map<string, string>(), new Map<string, null>()];
    for (const [key, value] of Object.entries(values))
      if (value === null) removed.set(key, null);
      else set.set(key, value);
    const data = { ...users.data(Object.fromEntries(set)), ...Object.fromEntries(removed) };
    return await this.api.patch(users.path(name), { data });
  }

  /** An object as the original makes it from a source. */
  async original(users: KindScene, place: string, source: Json, given: Json = {}): Promise<Json> {
    const [namespace, name = source.metadata.name] = place.split('/');
    const { data, binaryData, type, metadata } = source;
    const keys = [...Object.keys(data ?? {}), ...Object.keys(binaryData ?? {})].toSorted().join(',');
    return await this.api.create({
      apiVersion: 'v1',
      kind: users.kind.kind,
      ...(data === undefined ? {} : { data }),
      ...(binaryData === undefined ? {} : { binaryData }),
      ...(type === undefined ? {} : { type }),
      ...given,
      metadata: {
        namespace,
        name,
        labels: metadata.labels,
        annotations: annotations({
          'replicated-at': '2026-01-01T00:00:00Z',
          'replicated-from-version': metadata.resourceVersion,
          'replicated-keys': keys,
          ...given.annotations,
        }),
      },
    });
  }
}
