/** Shared by the scenarios of annotated objects: a cluster, an operator, and actions of users in the words of a system. */
import { type ControlPlane, type ControlPlaneOptions, startControlPlane } from '../../servers/control-plane.ts';
import { readAuditLog } from '../../support/audit-log.ts';
import type { Json } from '../../support/api.ts';
import type { Keyferry, KeyferryOptions } from '../../support/keyferry.ts';
import { staysTrue, waitForStable } from '../../support/wait-for.ts';
import { type KindScene, KINDS, ReplicatorScene, SETTLE_MS, type TestKind } from '../replicator/support.ts';

export { KINDS, SETTLE_MS };
export type { KindScene };

export type Texts = Readonly<Record<string, string>>;
type Patch = Readonly<Record<string, string | null>>;

export class AnnotatedScene extends ReplicatorScene {
  /** The command of the operator. Default: that of all controllers of annotations. */
  protected readonly command: string = 'run';

  static override async open<Scene extends ReplicatorScene>(
    this: new (plane: ControlPlane) => Scene,
    options: ControlPlaneOptions = {},
  ): Promise<Scene> {
    return new this(await startControlPlane({ controllerManager: false, ...options }));
  }

  override async started(args: readonly string[] = [], options: Partial<KeyferryOptions> = {}): Promise<Keyferry> {
    const all = this.command === 'run' ? ['--controllers=replicator,reflector,mittwald,config-syncer'] : [];
    return await super.started([...all, ...args], { command: this.command, ...options });
  }

  get secrets(): KindScene {
    return this.of(KINDS[0] as TestKind);
  }

  get configMaps(): KindScene {
    return this.of(KINDS[1] as TestKind);
  }

  /** The whole names of annotations. */
  protected annotations(given: Patch): Record<string, string> {
    return given as Record<string, string>;
  }

  /** Creates an object with these annotations. */
  async put(users: KindScene, name: string, values: Texts, given: Texts = {}, more: Json = {}): Promise<Json> {
    const [namespace, object] = name.split('/');
    return await this.api.create({
      apiVersion: 'v1',
      kind: users.kind.kind,
      data: users.data(values),
      ...more,
      metadata: { ...more.metadata, namespace, name: object, annotations: this.annotations(given) },
    });
  }

  /** Changes annotations; `null` removes one. */
  async say(users: KindScene, name: string, given: Patch): Promise<Json> {
    return await this.api.patch(users.path(name), { metadata: { annotations: this.annotations(given) } });
  }

  /** Sets or removes keys; the others stay. */
  async set(users: KindScene, name: string, values: Patch): Promise<Json> {
    const set = Object.entries(values).filter((entry): entry is [string, string] => entry[1] !== null);
    const removed = Object.entries(values).filter(([, value]) => value === null);
    const data = { ...users.data(Object.fromEntries(set)), ...Object.fromEntries(removed) };
    return await this.api.patch(users.path(name), { data });
  }

  async label(namespace: string, labels: Patch): Promise<void> {
    await this.api.patch(`/api/v1/namespaces/${namespace}`, { metadata: { labels } });
  }

  async absent(users: KindScene, name: string): Promise<void> {
    await staysTrue(async () => (await users.find(name)) === undefined, SETTLE_MS, `${name} is absent`);
  }

  /** The actions of users on objects of the kind of this object. */
  ofKind({ kind }: Json): KindScene {
    return kind === 'Secret' ? this.secrets : this.configMaps;
  }
}

/** Opens a scene that ends with the stack. */
export async function opened<Scene extends AnnotatedScene>(
  stack: AsyncDisposableStack,
  Class: new (plane: ControlPlane) => Scene,
  ...namespaces: readonly string[]
): Promise<Scene> {
  const users = [{ name: 'keyferry' }];
  const plane = await startControlPlane({ controllerManager: false, audit: true, users });
  const scene = stack.adopt(new Class(plane), (one) => one.close());
  await scene.namespaces(...namespaces);
  return scene;
}

/** What operators with a user of their own ask of the server: so the audit log tells them from the test. */
export class Audited {
  readonly #scene: AnnotatedScene;
  readonly kubeconfig: string;

  private constructor(scene: AnnotatedScene, kubeconfig: string) {
    this.#scene = scene;
    this.kubeconfig = kubeconfig;
  }

  static async of(scene: AnnotatedScene): Promise<Audited> {
    const apiGroup = 'rbac.authorization.k8s.io';
    await scene.api.create({
      apiVersion: `${apiGroup}/v1`,
      kind: 'ClusterRoleBinding',
      metadata: { name: 'operator' },
      roleRef: { apiGroup, kind: 'ClusterRole', name: 'cluster-admin' },
      subjects: [{ apiGroup, kind: 'User', name: 'keyferry' }],
    });
    return new Audited(scene, await scene.plane.writeKubeconfig({ token: scene.plane.tokenFor('keyferry') }));
  }

  requests(verb?: string): number {
    const all = readAuditLog(this.#scene.plane, 'keyferry');
    return all.filter((entry) => verb === undefined || entry.verb === verb).length;
  }

  /** The writes except events, as `<verb> <namespace>/<name>`. */
  writes(): string[] {
    return readAuditLog(this.#scene.plane, 'keyferry')
      .filter(({ verb, resource, code }) => {
        return code < 400 && !['get', 'list', 'watch'].includes(verb) && resource !== 'events';
      })
      .map(({ verb, namespace, name }) => `${verb} ${namespace}/${name}`);
  }

  async quiet(): Promise<void> {
    await waitForStable(() => String(this.requests()), SETTLE_MS, 'no more requests');
  }

  /** Starts an operator, waits until it is quiet, and stops it. @returns its writes, sorted */
  async run(args: readonly string[] = []): Promise<readonly string[]> {
    const before = this.writes().length;
    const operator = await this.#scene.operator(args, { kubeconfig: this.kubeconfig });
    await this.quiet();
    await operator.stop();
    return this.writes().slice(before).toSorted();
  }
}
