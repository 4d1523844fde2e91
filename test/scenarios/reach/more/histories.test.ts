import { testHistories } from '../history.ts';

testHistories([3, 4, 5, 6]);
