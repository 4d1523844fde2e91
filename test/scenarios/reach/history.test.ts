import { testHistories } from './history.ts';

// The other seeds are in more/histories.test.ts.
testHistories([1]);
