import type { FactSource } from '../../src/copy/plan/decide.ts';

/** For unit tests whose rules copy in no cycle. */
export const NO_CYCLES: FactSource['cycles'] = { viewsOn: () => () => undefined };
