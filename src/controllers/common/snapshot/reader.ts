/** The interface by which the short commands read the rules of a controller. */
import type { Kind } from '../../../copy/model/kind.ts';
import type { ResourceKey, RuleKey } from '../../../copy/model/keys.ts';
import type { RuleSet } from '../../../copy/model/rule-set.ts';
import type { Inventory } from './inventory.ts';
import type { Collection } from './list-permitted.ts';
import type { Snapshot, SnapshotOptions } from './snapshot.ts';
import type { ControllerStatus } from './status-report.ts';

export interface ControllerReader {
  /** `undefined`: the rules are annotated Secrets and ConfigMaps. */
  readonly collection: RuleCollection | undefined;
  readonly open: (context: ReaderContext) => RuleReader;
}

/** The collection of rules that have a kind of their own. */
export interface RuleCollection extends Collection {
  /** The apiVersions that manifests may have. The value is a problem if the server would drop fields. */
  readonly apiVersions: ReadonlyMap<string, string | undefined>;
  /** `plan` works without the permission to list it. */
  readonly isOptional?: true;
  /** The advice if the API is not installed. */
  readonly notInstalled: string;
  /** Why the server would refuse the form of a spec. */
  readonly specProblem?: (spec: Readonly<Record<string, unknown>>) => string | undefined;
  /** The rules hold content themselves, and have no spec. */
  readonly content?: Kind;
}

export interface ReaderContext extends Pick<SnapshotOptions, 'api' | 'config' | 'now'> {
  /** Is filled after the readers are opened. A reader adds the collection of its rules to it. */
  readonly inventory: Inventory;
  /** A limit may now admit or refuse the rule: evaluate it again. */
  readonly onLimitChange: (rule: RuleKey) => void;
}

/** The rules of one snapshot. */
export interface RuleReader {
  /** `undefined`: the rules have no claims. */
  readonly ruleSet?: RuleSet;
  /** Name of the rules in the plural: `SecretMirrors`. */
  readonly ruleNames: string;
  /** The rules to evaluate, once all objects are listed. */
  rules(): Iterable<RuleKey>;
  /** `undefined`: the controller has no rules of this kind. */
  ruleOf(object: ResourceKey): RuleKey | undefined;
  /** The title of a rule that may not exist: `SecretMirror default/mysecret-mirror`. */
  titleOf(rule: RuleKey): string;
  /** Why Keyferry would not apply a rule. */
  problemsOf(object: ResourceKey): readonly string[];
  /** Remarks on an object that is not a rule here. */
  notesOf?(object: ResourceKey): readonly string[];
  /** The rule of another program that makes, fills or uses an object, where this controller reads its annotations. */
  heldBy?(object: ResourceKey): string | undefined;
  /** A remark on a valid rule. @param claims the number of its claims */
  noteOn?(rule: RuleKey, claims: number): string | undefined;
  /**
   * @param isIncluded whether the rules in a namespace are included; orphans are included in any case
   * @throws the errors of `api.request`
   */
  status(snapshot: Snapshot, isIncluded: (namespace: string) => boolean): Promise<ControllerStatus>;
}
