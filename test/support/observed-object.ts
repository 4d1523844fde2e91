/** Makes observed objects (metadata from a watch), for tests of decisions. */
import type { Observed } from '../../src/copy/model/observed.ts';

/** An object that another client wrote. Labels, annotations and other fields come from `given`. */
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
