/** Parses metrics in the text format of Prometheus. */

export interface Sample {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)(?: \d+)?$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** @throws Error that quotes a line, if the line is neither a comment nor a sample */
export function parseMetrics(text: string): Sample[] {
  return text
    .split('\n')
    .filter((line) => line !== '' && !line.startsWith('#'))
    .map((line) => {
      const [, name, labels = '', value] = LINE.exec(line) ?? [];
      if (name === undefined || value === undefined)
        throw new Error(`no sample of the Prometheus text format: ${line}`);
      return {
        name,
        labels: Object.fromEntries([...labels.matchAll(LABEL)].map(pair)),
        value: Number(value.replace('Inf', 'Infinity')),
      };
    });
}

/** The sum of all samples with this name and these labels; `undefined` if there is no such sample. */
export function metricValue(
  text: string,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  const samples = parseMetrics(text).filter(
    (sample) => sample.name === name && Object.entries(labels).every(([key, value]) => sample.labels[key] === value),
  );
  return samples.length === 0 ? undefined : samples.reduce((sum, { value }) => sum + value, 0);
}

function pair([, name, value]: RegExpMatchArray): [string, string] {
  const text = (value ?? '').replaceAll(/\\(.)/g, (_, char: string) => (char === 'n' ? '\n' : char));
  return [name ?? '', text];
}
