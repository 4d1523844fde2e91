/** Says to the author of a rule from and into which namespaces it must not copy, and why. Pure. */
import { ACCEPT_FROM_ANNOTATION } from '../../../copy/cluster/watch/namespaces.ts';
import { type Cause, userCause, withReason } from '../../../copy/model/cause.ts';
import type { OutOfReach } from '../../../copy/model/rule-set.ts';
import { getOrCreate } from '../../../runtime/maps.ts';
import { someOf } from '../../../runtime/text/texts.ts';

/**
 * Why a rule must not copy. `source`, `destination`, `excluded`: by a limit of the administrator. The others: by the
 * receiving namespace. Its annotation does not list the rule's namespace (`consent`), is missing (`absent`) or has a
 * mistake (`broken`).
 */
export type Refusal = 'source' | 'destination' | 'excluded' | 'consent' | 'absent' | 'broken';

/** Maximum number of namespaces that one cause names. */
const NAMED = 5;

/**
 * @param home namespace of the rule
 * @param places the refused namespaces, as a text for the message. @param count their number
 */
export function refusalCause(refusal: Refusal, home: string, places: string, count = 1): Cause {
  const limited = (how: string, flag: string): Cause =>
    userCause('NotPermitted', `copies ${how} ${places} are not permitted by ${flag}`);
  const unwanted = (why: string): Cause => {
    const verb = count === 1 ? 'does' : 'do';
    return userCause('NotAccepted', `${places} ${verb} not accept copies from namespace ${home} (${why})`);
  };
  switch (refusal) {
    case 'source':
      return limited('from', '--source-namespaces');
    case 'destination':
      return limited('into', '--destination-namespaces');
    case 'excluded':
      return limited('into', '--excluded-namespaces');
    case 'consent':
      return unwanted(`annotation ${ACCEPT_FROM_ANNOTATION}`);
    case 'absent':
      return unwanted(`no annotation ${ACCEPT_FROM_ANNOTATION}, and --require-consent is on`);
    case 'broken':
      return unwanted(`a mistake in annotation ${ACCEPT_FROM_ANNOTATION}`);
    default:
      return refusal satisfies never;
  }
}

/** The namespaces that a rule selects but must not copy into. Its author learns only names that stand in the rule. */
export class LeftOut {
  /** Namespace of the rule. */
  readonly home: string;
  /** How many namespaces the rule copies into. */
  reached = 0;
  readonly #groups = new Map<Refusal, { readonly named: Set<string>; readonly others: Set<string> }>();

  constructor(home: string) {
    this.home = home;
  }

  add(refusal: Refusal, namespace: string, isNamed: boolean): void {
    // A rule may have several targets in one namespace, which counts once.
    const { named, others } = getOrCreate(this.#groups, refusal, () => ({ named: new Set(), others: new Set() }));
    (isNamed ? named : others).add(namespace);
  }

  /** The refusals as one cause; `undefined`: no namespace was left out. */
  get outOfReach(): OutOfReach | undefined {
    const causes = Array.from(this.#groups, ([refusal, { named, others: all }]) => {
      const others = [...all].filter((namespace) => !named.has(namespace)).length;
      const parts = named.size === 0 ? [] : [`${plural(named.size)} ${someOf([...named].toSorted(), NAMED)}`];
      if (others > 0) parts.push(`${others} ${named.size > 0 ? 'other ' : ''}${plural(others)}`);
      const cause = refusalCause(refusal, this.home, parts.join(' and '), named.size + others);
      return { ...cause, isNamed: named.size > 0 || this.reached === 0 };
    });
    const named = causes.find(({ isNamed }) => isNamed);
    const reason = (named ?? causes[0])?.reason;
    if (reason === undefined) return undefined;
    // The condition shows the reason beside the text. So the texts of that reason come first and do not repeat it.
    const sorted = causes.toSorted((a, b) => Number(b.reason === reason) - Number(a.reason === reason));
    const texts = sorted.map((cause) => (cause.reason === reason ? cause.message : withReason(cause)));
    return { ...userCause(reason, texts.join('; ')), part: named === undefined ? 'others' : 'named' };
  }
}

function plural(count: number): string {
  return count === 1 ? 'namespace' : 'namespaces';
}
