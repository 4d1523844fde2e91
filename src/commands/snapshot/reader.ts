/** The interface through which commands such as `status` and `plan` read the rules of a controller. */
import type { MigratedProgram } from '../../config/migrated-programs.ts';
import type { Kind } from '../../copy/model/kind.ts';
import type { ResourceKey, RuleKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Evaluation, RuleSet } from '../../copy/model/rule-set.ts';
import type { RuleScope } from '../../controllers/common/context.ts';
import type { Condition } from '../../controllers/common/rules/rule-statuses.ts';
import type { Collection, Inventory } from './inventory.ts';
import type { Snapshot } from './snapshot.ts';
import type { RuleState, RuleStatus } from './status-report.ts';

/** The class that makes readers of one controller's rules. */
export interface ControllerReader {
  new (context: ReaderContext): RuleReader;
  /** The collection of the rules; `undefined`: they are annotated Secrets and ConfigMaps. */
  readonly collection: RuleCollection | undefined;
}

/** The collection of a controller whose rules have their own kind, for example SecretMirror. */
export interface RuleCollection extends Collection {
  /** The apiVersions that manifests may have. Value: a problem with one, for example fields that the server drops. */
  readonly apiVersions: ReadonlyMap<string, string | undefined>;
  /** Set if most clusters lack this API: then `status` does not mention this, and a caller may lack the right to list. */
  readonly isRare?: true;
  /** Advice if the API is not installed. */
  readonly notInstalled: string;
  /** If the rules themselves hold content and have no spec: the kind by which their content is read. */
  readonly content?: Kind;
}

export interface ReaderContext {
  /** Still empty when the readers are made. Each reader includes the collection of its rules in the lists. */
  readonly inventory: Inventory;
  readonly scope: RuleScope;
}

/** A rule as `status` shows it. */
export interface ListedRule extends Pick<RuleStatus, 'kind' | 'namespace' | 'name' | 'source' | 'destinations'> {
  /** `undefined`: the rules of this controller have no claims. */
  readonly key: RuleKey | undefined;
  /** Whether the snapshot must decide on each target of the rule, to find out the rule's problems. */
  readonly isDecided: boolean;
  /** Called after the targets were decided. @param copies the copies of the rule that exist */
  readonly stateOf: (copies: readonly Observed[]) => RuleState & Pick<RuleStatus, 'lastSyncTime'>;
}

/** An object with a mark of a controller that no rule claims. */
export interface Unwanted {
  /** The rule that the mark names; '': the mark was removed. */
  readonly owner: string;
  readonly why: string;
  /** Set if Keyferry ignores the mark, and so decides nothing about the object. */
  readonly isIgnored?: boolean;
  /** Set if the mark may come from the original program, which does not write the annotation `keyferry.dev/target`. */
  readonly leftover?:
    | {
        readonly program: MigratedProgram;
        readonly why: string;
        /** Why a user may still want the copy; `undefined`: no reason is known. */
        readonly because: string | undefined;
      }
    | undefined;
  /** Why Keyferry keeps the object; `undefined`: no special reason. */
  readonly keptBecause?: string | undefined;
}

/** The rules of one controller in one snapshot. */
export interface RuleReader extends Pick<ControllerReader, 'collection'> {
  /** Name of the controller in reports: `mirrors`. */
  readonly system: string;
  /** Name of the rules in the plural: `SecretMirrors`. */
  readonly ruleNames: string;
  /** `undefined`: the rules of this controller have no claims. */
  readonly ruleSet?: RuleSet;
  /** The annotation of a copy that contains the version of its source; '': copies have none. */
  readonly versionMark: string;
  /** The rules to evaluate. Called when all objects are listed. */
  rules?(): Iterable<RuleKey>;
  /** The rule of an object, if rules do not have their own kind; `undefined`: objects of this kind are no rules. */
  ruleOf?(object: ResourceKey): RuleKey | undefined;
  /** The rules as `status` shows them. */
  list(snapshot: Snapshot): Iterable<ListedRule>;
  /** Describes an object with a mark of this controller that no rule claims; `undefined`: nothing to report. */
  unwanted?(snapshot: Snapshot, object: ResourceKey, observed: Observed): Unwanted | undefined;
  /** Whether an object that a rule fills has its content already. */
  isFilled?(observed: Observed): boolean;
  /** Why Keyferry would not apply a rule. @param evaluation its evaluation; `undefined`: the object is no rule */
  problemsOf?(object: ResourceKey, evaluation: Evaluation | undefined): readonly string[];
  /** What a user should know about an object that is not a rule here, as a SyncSecret for another cluster. */
  notesOf?(object: ResourceKey): readonly string[];
  /** The rule of another program that makes, fills or uses an object; `undefined`: the reader knows of none. */
  heldBy?(object: ResourceKey): string | undefined;
  /** Why a rule explicitly excludes a namespace; `undefined`: it does not. */
  exclusionOf?(rule: RuleKey, namespace: string): string | undefined;
  /** The condition of a rule for its present generation; `undefined`: the rule has none. */
  conditionOf?(rule: RuleKey): Condition | undefined;
  /** Messages on patterns that match no namespace and look like a mistake. Called only if all namespaces are known. */
  misreadOf?(rule: RuleKey): readonly string[];
  /** What a user should know about a valid rule, for example that it is suspended; `undefined`: nothing. */
  noteOn?(rule: RuleKey, evaluation: Evaluation | undefined): string | undefined;
}
