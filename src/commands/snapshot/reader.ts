/** The interface through which commands such as `status` and `plan` read the rules of a controller. */
import type { StatusReport } from '../../../scripts/reports/schemas.ts';
import type { RuleScope } from '../../controllers/common/context.ts';
import type { Condition } from '../../copy/engine/life/condition.ts';
import type { Claims } from '../../copy/book/claims.ts';
import type { Claimed } from '../../copy/model/claim.ts';
import type { ResourceKey, RuleKey } from '../../copy/model/keys.ts';
import type { Observed } from '../../copy/model/observed.ts';
import type { Evaluation, RuleSet } from '../../copy/model/rule-set.ts';
import type { ControllerName } from '../../config/controllers.ts';
import type { Inventory, Needs, RuleCollection } from './inventory.ts';
import type { Place } from './places.ts';
import type { RuleState } from './rule-state.ts';

/** A controller in the table of `commands/readers.ts`. */
export interface ReaderEntry {
  /** Name of the rules in the plural: `SecretMirrors`. */
  readonly ruleNames: string;
  /** `undefined`: the rules are annotated Secrets and ConfigMaps. */
  readonly collection: RuleCollection | undefined;
  /** The program that the controller replaces, if its Deployment can be told by the name of its image. */
  readonly original?: Original;
  /** The kinds that it needs besides its collection. Default: namespaces, Secrets and ConfigMaps. */
  readonly needs?: (controllers: readonly ControllerName[] | undefined) => Needs;
  /** Makes the reader before the lists. The reader includes the collection of its rules in them. */
  readonly open: (inventory: Inventory, scope: RuleScope) => RuleReader;
}

export interface Original {
  /** `k8s-replicator` */
  readonly program: string;
  /** Matches the name of its image, without registry and tag. */
  readonly image: RegExp;
  /** The prefix of its annotations, if the controller runs only if `--controllers` names it. */
  readonly prefix?: string;
}

/** The rules of one controller in one snapshot. */
export interface RuleReader {
  /** `undefined`: the rules of this controller have no claims. */
  readonly ruleSet?: RuleSet & { isKept?(annotations: Observed['annotations']): boolean };
  /** The annotation of a copy that contains the version of its source; '': copies have none. */
  readonly versionMark: string;
  /** The version in the text of this annotation. Default: all of it. */
  readonly versionIn?: (text: string) => string | undefined;
  /** The rule of an object, if rules do not have their own kind; `undefined`: objects of this kind are no rules. */
  ruleOf?(object: ResourceKey): RuleKey | undefined;
  /** `undefined`: the object is no rule, so there is nothing to say. */
  describe(object: ResourceKey, snapshot: SnapshotView): Description | undefined;
  /** Why an object that is no rule, and from which no claim copies, is needed all the same; `undefined`: it is not. */
  uses?(observed: Observed): string | undefined;
  /** Describes an object with a mark of this controller that no rule claims; `undefined`: nothing to report. */
  unwanted?(object: ResourceKey, observed: Observed, snapshot: SnapshotView): Unwanted | undefined;
  /** Names copies of the rules that no command reads; `undefined`: there are none. */
  unread?(snapshot: SnapshotView): string | undefined;
}

/** The part of a snapshot that readers use. */
export interface SnapshotView {
  readonly claims: Claims;
  /** All rules that request copies, even if no copy can be made. */
  readonly rules: ReadonlyMap<RuleKey, Evaluation>;
  /** The existing copy of a claim: an object with the mark of the claim's rule, or a filled object; `undefined`: none. */
  copyOf(claimed: Claimed): Observed | undefined;
  /** Why a rule does not make this object; `undefined`: because the rule does not select its namespace. */
  whyNot(rule: RuleKey, object: ResourceKey): string | undefined;
}

/** What the commands say of a rule. */
export interface Description extends Pick<StatusReport['rules'][number], 'source' | 'destinations'> {
  /** The source, if no claim has it. */
  readonly from?: Place | null;
  /** Targets that no command reads: entries of Vault, and objects in another cluster. */
  readonly elsewhere?: readonly Place[];
  /** From the status of the rule; if it has none, from the outcomes on its targets, once these are decided. */
  readonly state: () => RuleState & Pick<StatusReport['rules'][number], 'lastSyncTime'>;
  /** The condition of the rule for its present generation; `undefined`: it has none. */
  readonly condition?: Condition | undefined;
  /** Why Keyferry would not apply the rule. */
  readonly problems?: readonly string[];
  /** What a user should know about it, for example that it is suspended, or is for another cluster. */
  readonly notes?: readonly string[];
  /** Messages on patterns that the original reads in another way. */
  readonly warnings?: readonly string[];
  /** Why the rule explicitly excludes a namespace; `undefined`: it does not. */
  readonly exclusionOf?: (namespace: string) => string | undefined;
}

/** An object with a mark of a controller that no rule claims. */
export interface Unwanted {
  /** The rule that the mark names; '': the mark was removed. */
  readonly owner: string;
  readonly why: string;
  /** Set if Keyferry ignores the mark, and so decides nothing about the object. */
  readonly isIgnored?: boolean;
  /** Why a user may still want the object; `undefined`: no reason is known. */
  readonly because?: string | undefined;
}
