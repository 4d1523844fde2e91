/**
 * Reads Dockerfiles. It knows only the instructions that Keyferry's Dockerfile uses:
 * https://docs.docker.com/reference/dockerfile/.
 */

export interface Instruction {
  /** The name of the instruction in capitals: `COPY`. */
  readonly name: string;
  readonly flags: Readonly<Record<string, string>>;
  /** The text after name and flags. Continued lines are joined by a space. */
  readonly text: string;
}

interface Stage {
  readonly base: string;
  readonly name: string | undefined;
  readonly platform: string | undefined;
  readonly instructions: readonly Instruction[];
}

/**
 * The stages of a Dockerfile in their order, with each `ARG` replaced by its value in `given` or its default.
 * @throws Error for an instruction before the first stage that is not `ARG`
 */
export function readDockerfile(content: string, given: Readonly<Record<string, string>>): Stage[] {
  const stages: (Stage & { instructions: Instruction[] })[] = [];
  const globals = new Map<string, string>();
  let known = globals;
  const lines = content.replaceAll(/^\s*#.*\n/gm, '').replaceAll(/\\\n\s*/g, '');
  for (const line of lines.split('\n').filter((text) => text.trim() !== '')) {
    const { name, flags, text: raw } = instructionOf(line);
    const variables = name === 'FROM' ? globals : known;
    const text = raw.replaceAll(/\$\{(\w+)\}/g, (all, key: string) => variables.get(key) ?? all);
    if (name === 'ARG') {
      const [key = '', value = ''] = text.split('=');
      known.set(key, given[key] ?? value);
    } else if (name === 'FROM') {
      const [, base = '', , stage] = /^(\S+)( AS (\S+))?$/.exec(text) ?? [];
      stages.push({ base, name: stage, platform: flags['platform'], instructions: [] });
      // By Docker's rule, an ARG before the first stage counts only in FROM.
      known = new Map();
    } else {
      const stage = stages.at(-1);
      if (stage === undefined) throw new Error(`${name} is before the first FROM`);
      stage.instructions.push({ name, flags, text });
    }
  }
  return stages;
}

function instructionOf(line: string): Instruction {
  const [, name = '', flags = '', text = ''] = /^(\w+)((?:\s+--\w+=\S+)*)\s+(.*)$/.exec(line) ?? [];
  const pairs = [...flags.matchAll(/--(\w+)=(\S+)/g)].map(([, key = '', value = '']) => [key, value] as const);
  return { name: name.toUpperCase(), flags: Object.fromEntries(pairs), text };
}
