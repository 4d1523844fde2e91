import { testHistories } from '../history.ts';

testHistories([2, 3, 4, 5, 6]);
