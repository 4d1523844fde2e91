/** Reports a consent with a mistake, which accepts nobody: one Warning event on its Namespace. */
import { ACCEPT_FROM_ANNOTATION, type Namespaces } from '../../../copy/cluster/watch/namespaces.ts';
import type { EventInput } from '../../../kube/event-recorder.ts';
import { PatternCache } from '../../../runtime/text/name-patterns.ts';
import { readConsent } from './reach.ts';

export class ConsentWatch {
  readonly #namespaces: Namespaces;
  readonly #record: (event: EventInput) => void;
  readonly #patterns = new PatternCache('full');
  /** The last report about each namespace whose consent has a mistake. */
  readonly #reported = new Map<string, string>();

  constructor(namespaces: Namespaces, record: (event: EventInput) => void) {
    this.#namespaces = namespaces;
    this.#record = record;
  }

  /** Reports from now on. Call it in the process that writes. */
  start(): void {
    for (const name of this.#namespaces.names()) this.#check(name);
    this.#namespaces.onChange((name) => {
      this.#check(name);
    });
  }

  #check(name: string): void {
    const uid = this.#namespaces.uidOf(name);
    const text = this.#namespaces.factsOf(name)?.acceptFrom;
    const consent = text === undefined ? undefined : readConsent(text, this.#patterns);
    if (uid === undefined || consent === undefined || !('problem' in consent)) {
      this.#reported.delete(name);
      return;
    }
    const report = `${uid} ${consent.problem}`;
    if (this.#reported.get(name) === report) return;
    this.#reported.set(name, report);
    const message = `annotation ${ACCEPT_FROM_ANNOTATION} ${consent.problem}; no rule of another namespace copies into this one`;
    const subject = { apiVersion: 'v1', kind: 'Namespace', name, uid };
    this.#record({ subject, type: 'Warning', reason: 'InvalidConsent', message });
  }
}
