/** The interface by which `status` and `plan` read the rules of a controller. */
import type { ReadingConfig } from '../../../config/config.ts';
import type { ResourceKey, RuleKey } from '../../../copy/model/keys.ts';
import type { RuleReconciler } from '../../../copy/rule-reconciler.ts';
import type { KubeApi, KubeObject } from '../../../kube/api.ts';
import type { Inventory } from './inventory.ts';
import type { Collection } from './list-permitted.ts';
import type { Snapshot } from './snapshot.ts';
import type { ControllerStatus } from './status-report.ts';

export interface ControllerReader {
  /** `undefined`: the rules are annotated Secrets and ConfigMaps. */
  readonly collection: RuleCollection | undefined;
  readonly open: (context: ReaderContext) => RuleReader;
}

/** The collection of rules that have a kind of their own. */
export interface RuleCollection extends Collection {
  /** `SecretMirror` */
  readonly kind: string;
  /** The apiVersions that manifests may have. The value is a problem if the server would drop fields. */
  readonly apiVersions: ReadonlyMap<string, string | undefined>;
  /** The advice if the API is not installed. */
  readonly notInstalled: string;
  /** Why the server would refuse the form of a spec. */
  readonly specProblem: (spec: Readonly<Record<string, unknown>>) => string | undefined;
}

export interface ReaderContext {
  readonly api: KubeApi;
  readonly config: ReadingConfig;
  /** Is filled after the readers are opened. */
  readonly inventory: Inventory;
  /** Wall clock, ms. */
  readonly now: number;
  /** A limit may now admit or refuse the rule: evaluate it again. */
  readonly onLimitChange: (rule: RuleKey) => void;
}

/** The rules of one snapshot. */
export interface RuleReader {
  readonly reconciler: RuleReconciler;
  /** Name of the rules in the plural: `SecretMirrors`. */
  readonly ruleNames: string;
  /** Takes a listed object of the collection. */
  put?(item: KubeObject): void;
  /** The rules to evaluate, once all objects are listed. */
  rules(): Iterable<RuleKey>;
  /** `undefined`: the controller has no rules of this kind. */
  ruleOf(object: ResourceKey): RuleKey | undefined;
  /** The title of a rule that may not exist: `SecretMirror default/mysecret-mirror`. */
  titleOf(rule: RuleKey): string;
  /** Why Keyferry would not apply a rule. */
  problemsOf(object: ResourceKey): readonly string[];
  /** A remark on a valid rule. @param claims the number of its claims */
  noteOn?(rule: RuleKey, claims: number): string | undefined;
  /**
   * @param namespace of the rules; `undefined` for all
   * @throws the errors of `api.request`
   */
  status(snapshot: Snapshot, namespace: string | undefined): Promise<ControllerStatus>;
}
