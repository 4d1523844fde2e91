/** Objects as a watch shows them, for tests of decisions. */
import type { Observed } from '../../src/copy/model/observed.ts';

/** An object that another client wrote. It has no labels and annotations, except those in `given`. */
export function observedObject(given: Partial<Observed> = {}): Observed {
  return {
    uid: 'u',
    resourceVersion: '5',
    created: '',
    deleting: false,
    labels: {},
    annotations: {},
    ownKeys: undefined,
    ownLabels: [],
    ownAnnotations: [],
    ...given,
  };
}
