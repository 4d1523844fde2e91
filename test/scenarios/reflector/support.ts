/** Shared by the scenarios of reflector: a cluster, an operator, and the annotations as users and reflector write them. */
import type { ControlPlaneOptions } from '../../servers/control-plane.ts';
import { startControlPlane } from '../../servers/control-plane.ts';
import type { Json } from '../../support/api.ts';
import type { Keyferry, KeyferryOptions } from '../../support/keyferry.ts';
import { staysTrue } from '../../support/wait-for.ts';
import { annotation, type KindScene, KINDS, ReplicatorScene, SETTLE_MS, type TestKind } from '../replicator/support.ts';

export { KINDS, SETTLE_MS };

export const PREFIX = 'reflector.v1.k8s.emberstack.com';

type Values = Readonly<Record<string, string>>;

/** `allowed`, `auto-namespaces` and so on stand for `reflection-allowed`, `reflection-auto-namespaces`. */
export function annotations(values: Readonly<Record<string, string | null>>): Record<string, string> {
  const names = Object.entries(values).map(([name, value]) => {
    const isShort = name === 'allowed' || name === 'auto' || /^(allowed|auto)-namespaces/.test(name);
    const whole = name === 'auto' ? 'reflection-auto-enabled' : isShort ? `reflection-${name}` : name;
    return [name.includes('/') ? name : `${PREFIX}/${whole}`, value as string] as const;
  });
  return Object.fromEntries(names);
}

/** The annotations of a source that is mirrored into namespaces of this list. */
export function autoInto(list: string, more: Values = {}): Values {
  return { allowed: 'true', auto: 'true', 'auto-namespaces': list, ...more };
}

export function mark(object: Json, name: string): string | undefined {
  return annotation(object, name, PREFIX);
}

export class ReflectorScene extends ReplicatorScene {
  static override async open(options: ControlPlaneOptions = {}): Promise<ReflectorScene> {
    return new ReflectorScene(await startControlPlane({ controllerManager: false, ...options }));
  }

  override async started(args: readonly string[] = [], options: Partial<KeyferryOptions> = {}): Promise<Keyferry> {
    return await super.started(args, { command: 'reflector', ...options });
  }

  get secrets(): KindScene {
    return this.of(KINDS[0] as TestKind);
  }

  get configMaps(): KindScene {
    return this.of(KINDS[1] as TestKind);
  }

  /** The whole names of the copier's annotations. */
  protected annotations(given: Readonly<Record<string, string | null>>): Record<string, string> {
    return annotations(given);
  }

  /** Creates an object with these annotations of the copier. */
  async put(users: KindScene, name: string, values: Values, given: Values = {}, more: Json = {}): Promise<Json> {
    const [namespace, object] = name.split('/');
    return await this.api.create({
      apiVersion: 'v1',
      kind: users.kind.kind,
      data: users.data(values),
      ...more,
      metadata: { ...more.metadata, namespace, name: object, annotations: this.annotations(given) },
    });
  }

  /** Changes annotations of the copier; `null` removes one. */
  async say(users: KindScene, name: string, given: Readonly<Record<string, string | null>>): Promise<Json> {
    return await this.api.patch(users.path(name), { metadata: { annotations: this.annotations(given) } });
  }

  async label(namespace: string, labels: Readonly<Record<string, string | null>>): Promise<void> {
    await this.api.patch(`/api/v1/namespaces/${namespace}`, { metadata: { labels } });
  }

  async absent(users: KindScene, name: string): Promise<void> {
    await staysTrue(async () => (await users.find(name)) === undefined, SETTLE_MS, `${name} is absent`);
  }
}
