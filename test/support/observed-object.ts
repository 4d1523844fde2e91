/** The watched state of an object, for tests of decisions. */
import type { Observed } from '../../src/copy/model/observed.ts';

/** An object that another client wrote, without labels and annotations unless given. */
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
