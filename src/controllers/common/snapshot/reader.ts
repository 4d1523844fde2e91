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

/** The class of the readers of one controller. */
export interface ControllerReader {
  new (context: ReaderContext): RuleReader;
  /** `undefined`: the rules are annotated Secrets and ConfigMaps. */
  readonly collection: RuleCollection | undefined;
}

/** The collection of rules that have a kind of their own. */
export interface RuleCollection extends Collection {
  /** The apiVersions that manifests may have. The value is a problem if the server would drop fields. */
  readonly apiVersions: ReadonlyMap<string, string | undefined>;
  /** `plan` works without the permission to list it. */
  readonly isOptional?: true;
  /** Most clusters do not need it: `status` does not mention it where its API is not installed. */
  readonly isRare?: true;
  /** The advice if the API is not installed. */
  readonly notInstalled: string;
  /** Why the server would refuse the form of a spec. */
  readonly specProblem?: (spec: Readonly<Record<string, unknown>>) => string | undefined;
  /** The rules hold content themselves, and have no spec. */
  readonly content?: Kind;
}

export interface ReaderContext {
  /** Is filled after the readers are opened. A reader adds the collection of its rules to it. */
  readonly inventory: Inventory;
  readonly scope: RuleScope;
}

/** A rule, as its object shows it. */
export interface ListedRule extends Pick<RuleStatus, 'kind' | 'namespace' | 'name' | 'source' | 'destinations'> {
  /** `undefined`: it has no claims. */
  readonly key: RuleKey | undefined;
  /** Whether the snapshot decides each of its targets, to say what is wrong there. */
  readonly isDecided: boolean;
  /** Is called once its targets are decided. @param copies the targets that hold its content */
  readonly stateOf: (copies: readonly Observed[]) => RuleState & Pick<RuleStatus, 'lastSyncTime'>;
}

/** An object with a mark of a controller, which no rule of it claims. */
export interface Unwanted {
  /** The rule in the mark; '' if there is none. */
  readonly owner: string;
  readonly why: string;
  /** The mark means nothing to Keyferry, so there is no decision on the object. */
  readonly isIgnored?: boolean;
  /** Where the mark may be one of the original, which writes no place. */
  readonly leftover?:
    | {
        readonly program: MigratedProgram;
        readonly why: string;
        /** Why the copy may be wanted nevertheless. */
        readonly because: string | undefined;
      }
    | undefined;
  /** Why Keyferry keeps it. */
  readonly keptBecause?: string | undefined;
}

/** The rules of one controller in one snapshot. */
export interface RuleReader extends Pick<ControllerReader, 'collection'> {
  /** Its name in reports: `mirrors`. */
  readonly system: string;
  /** Name of the rules in the plural: `SecretMirrors`. */
  readonly ruleNames: string;
  /** `undefined`: the rules have no claims. */
  readonly ruleSet?: RuleSet;
  /** The annotation of a copy with the version of its source. */
  readonly versionMark: string;
  /** The rules to evaluate, once all objects are listed. */
  rules?(): Iterable<RuleKey>;
  /** The rule of an object, where the rules have no kind of their own; `undefined`: objects of this kind are no rules. */
  ruleOf?(object: ResourceKey): RuleKey | undefined;
  /** The rules as `status` shows them. */
  list(snapshot: Snapshot): Iterable<ListedRule>;
  /** What is said of an object that has a mark of this controller, but no claim. */
  unwanted?(snapshot: Snapshot, object: ResourceKey, observed: Observed): Unwanted | undefined;
  /** Whether an object that a rule fills has its content. */
  isFilled?(observed: Observed): boolean;
  /** Why Keyferry would not apply a rule. @param evaluation of the rule, if the object is one */
  problemsOf?(object: ResourceKey, evaluation: Evaluation | undefined): readonly string[];
  /** Remarks on an object that is not a rule here. */
  notesOf?(object: ResourceKey): readonly string[];
  /** The rule of another program that makes, fills or uses an object, where this controller reads its annotations. */
  heldBy?(object: ResourceKey): string | undefined;
  /** Why a rule leaves out a namespace, whatever else it selects. */
  exclusionOf?(rule: RuleKey, namespace: string): string | undefined;
  /** The condition of a rule that has one, for its current generation. */
  conditionOf?(rule: RuleKey): Condition | undefined;
  /** A remark on a valid rule. */
  noteOn?(rule: RuleKey, evaluation: Evaluation | undefined): string | undefined;
}
