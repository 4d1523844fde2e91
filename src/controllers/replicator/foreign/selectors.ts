/** What `keyferry migrate` says about annotations that select namespaces by their labels. Pure. */
import { selectorObject } from '../../../runtime/text/label-selector.ts';

/**
 * Annotations of Keyferry select no labels, but a SecretMirror does.
 * @param name of the annotation
 * @param selectors the namespaces have the labels of all
 * @returns the text of a finding
 */
export function selectorText(name: string, ...selectors: readonly string[]): string {
  const why = `${name}: annotations of Keyferry select namespaces by their names, not by labels`;
  try {
    const selector = JSON.stringify(selectorObject(selectors.join(',')));
    return `${why}; write a SecretMirror with spec.destination.namespaceSelector ${selector} in place of the copies, or stay with annotations`;
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
    return `${why}, and the selector is invalid (${error.message})`;
  }
}
