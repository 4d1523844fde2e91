/** Tells the author of a rule which namespaces the rule must not copy from or into, and why. Pure. */
import { ACCEPT_FROM_ANNOTATION } from '../../../copy/cluster/watch/namespaces.ts';
import { because, type Cause, userCause, withReason } from '../../../copy/model/cause.ts';
import type { OutOfReach } from '../../../copy/model/rule-set.ts';
import { getOrCreate } from '../../../runtime/maps.ts';
import { someOf } from '../../../runtime/text/texts.ts';

/**
 * Why a rule must not copy. `source`, `destination`, `excluded`: a limit of the administrator forbids the copy.
 * `consent`, `absent`, `broken`: the receiving namespace does not accept it. Its annotation `keyferry.dev/accept-from`
 * does not list the rule's namespace, is missing, or has a mistake.
 */
export type Refusal = 'source' | 'destination' | 'excluded' | 'consent' | 'absent' | 'broken';

/** Maximum number of namespaces that the message of one cause names. */
const NAMED = 5;

/**
 * @param home namespace of the rule
 * @param places the refused namespaces in words, for example `namespaces a, b`. @param count their number
 */
export function refusalCause(refusal: Refusal, home: string, places: string, count = 1): Cause {
  const limited = (how: string, flag: string): Cause =>
    because('NotPermitted', `copies ${how} ${places} are not permitted by ${flag}`);
  const unwanted = (why: string): Cause => {
    const verb = count === 1 ? 'does' : 'do';
    return because('NotAccepted', `${places} ${verb} not accept copies from namespace ${home} (${why})`);
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

/** The namespaces that a rule selects but must not copy into. The message names only those that the rule names. */
export class LeftOut {
  /** Namespace of the rule. */
  readonly home: string;
  /** Number of namespaces that the rule may copy into. */
  reached = 0;
  readonly #groups = new Map<Refusal, { readonly named: Set<string>; readonly others: Set<string> }>();

  constructor(home: string) {
    this.home = home;
  }

  add(refusal: Refusal, namespace: string, isNamed: boolean): void {
    // If a rule has several targets in this namespace, the namespace counts only once.
    const { named, others } = getOrCreate(this.#groups, refusal, () => ({ named: new Set(), others: new Set() }));
    (isNamed ? named : others).add(namespace);
  }

  /** All refusals as one cause; `undefined`: no namespace was refused. */
  outOfReach(): OutOfReach | undefined {
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
    // A condition shows `reason` beside the message. So texts with this reason come first and do not repeat the reason.
    const sorted = causes.toSorted((a, b) => Number(b.reason === reason) - Number(a.reason === reason));
    const texts = sorted.map((cause) => (cause.reason === reason ? cause.message : withReason(cause)));
    return { ...userCause(reason, texts.join('; ')), part: named === undefined ? 'others' : 'named' };
  }
}

function plural(count: number): string {
  return count === 1 ? 'namespace' : 'namespaces';
}
