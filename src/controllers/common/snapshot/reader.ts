/** The interface by which the short commands read the rules of a controller. */
import type { MigratedProgram } from '../../../config/migrated-programs.ts';
import type { Kind } from '../../../copy/model/kind.ts';
import type { ResourceKey, RuleKey } from '../../../copy/model/keys.ts';
import type { Observed } from '../../../copy/model/observed.ts';
import type { Evaluation, RuleSet } from '../../../copy/model/rule-set.ts';
import type { RuleScope } from '../context.ts';
import type { Condition } from '../rules/rule-statuses.ts';
import type { Collection, Inventory } from './inventory.ts';
import type { Snapshot } from './snapshot.ts';
import type { RuleState, RuleStatus } from './status-report.ts';

/** The class that makes readers of one controller's rules. */
export interface ControllerReader {
  new (context: ReaderContext): RuleReader;
  /** The collection of the rules; `undefined`: they are annotated Secrets and ConfigMaps. */
  readonly collection: RuleCollection | undefined;
}

/** A collection of rules with a kind of their own. */
export interface RuleCollection extends Collection {
  /** The apiVersions that manifests may have. The value is a problem: fields that the server would drop. */
  readonly apiVersions: ReadonlyMap<string, string | undefined>;
  /** Whether `plan` works without the permission to list it. */
  readonly isOptional?: true;
  /** Whether most clusters lack it: then `status` does not mention a missing API. */
  readonly isRare?: true;
  /** Advice if the API is not installed. */
  readonly notInstalled: string;
  /** Why the server would refuse the form of a spec; `undefined`: it would not. */
  readonly specProblem?: (spec: Readonly<Record<string, unknown>>) => string | undefined;
  /** The kind of content, if the rules themselves hold content and have no spec. */
  readonly content?: Kind;
}

export interface ReaderContext {
  /** Is filled after the readers were made. A reader adds the collection of its rules to it. */
  readonly inventory: Inventory;
  readonly scope: RuleScope;
}

/** A rule as its object shows it. */
export interface ListedRule extends Pick<RuleStatus, 'kind' | 'namespace' | 'name' | 'source' | 'destinations'> {
  /** `undefined`: the rule has no claims. */
  readonly key: RuleKey | undefined;
  /** Whether the snapshot decides each target of the rule, to find its problems. */
  readonly isDecided: boolean;
  /** Called when the targets are decided. @param copies the targets that have the content */
  readonly stateOf: (copies: readonly Observed[]) => RuleState & Pick<RuleStatus, 'lastSyncTime'>;
}

/** An object with a mark of a controller that no rule claims. */
export interface Unwanted {
  /** The rule in the mark; '': there is none. */
  readonly owner: string;
  readonly why: string;
  /** Whether Keyferry ignores the mark, so that there is no decision on the object. */
  readonly isIgnored?: boolean;
  /** Set if the mark may come from the original, which writes no place. */
  readonly leftover?:
    | {
        readonly program: MigratedProgram;
        readonly why: string;
        /** Why the copy may be wanted nevertheless; `undefined`: no reason is known. */
        readonly because: string | undefined;
      }
    | undefined;
  /** Why Keyferry keeps the object. */
  readonly keptBecause?: string | undefined;
}

/** The rules of one controller in one snapshot. */
export interface RuleReader extends Pick<ControllerReader, 'collection'> {
  /** Name of the controller in reports: `mirrors`. */
  readonly system: string;
  /** Name of the rules in the plural: `SecretMirrors`. */
  readonly ruleNames: string;
  /** `undefined`: the rules have no claims. */
  readonly ruleSet?: RuleSet;
  /** The annotation of a copy that has the version of its source. */
  readonly versionMark: string;
  /** The rules to evaluate, when all objects are listed. */
  rules?(): Iterable<RuleKey>;
  /** The rule of an object, if rules have no kind of their own; `undefined`: objects of this kind are no rules. */
  ruleOf?(object: ResourceKey): RuleKey | undefined;
  /** The rules as `status` shows them. */
  list(snapshot: Snapshot): Iterable<ListedRule>;
  /** Describes an object with a mark of this controller that no rule claims; `undefined`: nothing to report. */
  unwanted?(snapshot: Snapshot, object: ResourceKey, observed: Observed): Unwanted | undefined;
  /** Whether an object that a rule should fill has its content. */
  isFilled?(observed: Observed): boolean;
  /** Why Keyferry would not apply a rule. @param evaluation of the object as a rule; `undefined`: it is none */
  problemsOf?(object: ResourceKey, evaluation: Evaluation | undefined): readonly string[];
  /** Notes on an object that is no rule in this cluster. */
  notesOf?(object: ResourceKey): readonly string[];
  /** The rule of another program that makes, fills or uses an object, if the reader knows that program. */
  heldBy?(object: ResourceKey): string | undefined;
  /** Why a rule leaves out a namespace, whatever else it selects; `undefined`: it does not. */
  exclusionOf?(rule: RuleKey, namespace: string): string | undefined;
  /** The condition of a rule for its present generation; `undefined`: it has none. */
  conditionOf?(rule: RuleKey): Condition | undefined;
  /** Patterns of a rule that match no namespace, and look like a mistake. Only where all namespaces are known. */
  misreadOf?(rule: RuleKey): readonly string[];
  /** A note on a valid rule. */
  noteOn?(rule: RuleKey, evaluation: Evaluation | undefined): string | undefined;
}
