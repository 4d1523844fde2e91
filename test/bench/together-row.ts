/** The row on memory of several controllers in one process. No controller has rules, so this is what each costs by itself. */
import { installEsoCrds } from '../servers/external-secrets.ts';
import { Latencies } from './copy-tracker.ts';
import type { Environment } from './environment.ts';
import type { Figure, Row } from './rows.ts';

/** The garbage collector makes single figures vary by some 0.5 MiB. */
const ROUNDS = 3;
const TWO = 'mirrors,replicator';
const VARIANTS = {
  two: TWO,
  reflector: `${TWO},reflector`,
  seven: `${TWO},reflector,mittwald,config-syncer,generator,syncsecret-manager`,
} as const;
type Variant = keyof typeof VARIANTS;

export const TOGETHER_ROW: Row = { id: 'together', onlyIfNamed: true, measure: together };

async function together(environment: Environment): Promise<Figure[]> {
  await installEsoCrds(environment.plane);
  const found: Record<Variant, number[]> = { two: [], reflector: [], seven: [] };
  for (let round = 0; round < ROUNDS; round += 1)
    for (const variant of Object.keys(VARIANTS) as Variant[]) found[variant].push(await atRest(environment, variant));
  const median = (variant: Variant): number => new Latencies(found[variant]).quantile(0.5);
  const more = (variant: Variant): Omit<Figure, 'id' | 'title'> => ({
    value: median(variant) - median('two'),
    unit: 'MiB',
    note: found[variant].map((one) => one.toFixed(1)).join(', '),
  });
  return [
    {
      id: 'together.two',
      title: 'private memory at rest: SecretMirrors and the replicator',
      value: median('two'),
      unit: 'MiB',
      note: found.two.map((one) => one.toFixed(1)).join(', '),
    },
    { id: 'together.reflector', title: '… more with reflector', ...more('reflector') },
    { id: 'together.seven', title: '… more with all seven systems', ...more('seven') },
  ];
}

/** Starts a process with these controllers. @returns its private memory when it is quiet, MiB */
async function atRest(environment: Environment, variant: Variant): Promise<number> {
  const subject = await environment.start(['run', '--controllers', VARIANTS[variant]]);
  await subject.ready(environment.options.timeoutMs);
  await environment.settled();
  return subject.meter.memory().privateMiB;
}
