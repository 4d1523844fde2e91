/** Replaces `Math.random`, so that the random part of waits is known: 0 ≤ value < 1. Other tests of the process keep it. */
export function fixRandom(value: number): void {
  Math.random = () => value;
}
