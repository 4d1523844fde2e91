/** The commands beside the operator: `status`, `plan` and so on, with their flags and help. */
import { type CliContext, EXIT_DONE } from '../commands/actions.ts';
import { clusterFlags, leaseNameFlag, RUN_LEASE } from '../config/flags/common-flags.ts';
import { readingConfig, readingFlags } from '../config/flags/controller-flags.ts';
import { flag, type Flag, type FlagTable, type SectionValues } from '../config/flags/flags.ts';
import { CONTROLLERS } from '../config/controller-names.ts';
import { UsageError } from '../config/usage-error.ts';
import { type Command, shortCommand } from './command.ts';
import { SCRIPTS, type Shell, SHELLS } from './completion.ts';
import { EXAMPLES } from './examples.ts';

const FORMATS = ['table', 'json', 'yaml'] as const;
const NOT_READY_CODES =
  'Exit codes: 0 success, 1 failure or the object or namespace does not exist, 2 usage error, 3 (with --exit-code) a rule is not ready, or a copy that no rule wants is still there.';

function outputFlag<const Format extends string>(formats: readonly Format[]): Flag<Format> {
  return { ...flag.choice('output', formats, formats[0] as Format, 'output format'), short: 'o' };
}

function namespaceOption(help: string): Flag<string | undefined> {
  return { ...flag.text('namespace', 'name', help), short: 'n' };
}

export const EXPLAINED_KINDS = ['secret', 'configmap', 'secretmirror', 'syncsecret', 'externalsecret'];
const MAX_PORT = 65_535;
const exitCode = flag.bool(
  'exit-code',
  'exit with code 3 if one of these rules is not ready, or a copy that no rule wants is still there',
);

const statusFlags = {
  output: outputFlag(['table', 'wide', 'json', 'yaml', 'name']),
  namespace: namespaceOption(
    'show only SecretMirrors, SyncSecrets and annotated objects in this namespace, with all of their copies; needs permissions only in this namespace',
  ),
  allNamespaces: {
    ...flag.bool('all-namespaces', 'show SecretMirrors and annotated objects in all namespaces, also with -n'),
    short: 'A',
  },
  failed: flag.bool('failed', 'show only rules that have problems, with all of their failing targets'),
  copies: flag.bool('copies', 'show each copy, too, as -o wide does'),
  orphans: flag.bool('orphans', 'show only copies that no rule wants; with -o name those that can be deleted'),
  watch: { ...flag.bool('watch', 'print the status, then each change, until Ctrl-C'), short: 'w' },
  exitCode,
  leaseName: leaseNameFlag(RUN_LEASE),
} satisfies FlagTable;

const planFlags = {
  output: outputFlag(FORMATS),
  namespace: namespaceOption('the namespace of objects that name none, as in kubectl'),
  filename: {
    ...flag.list('filename', 'file', 'a manifest or a folder of manifests, as in kubectl; can be repeated', () => {}),
    short: 'f',
    separator: '\n',
    parse: (text: string): readonly string[] => text.split('\n'),
  },
  recursive: { ...flag.bool('recursive', 'read folders recursively'), short: 'R' },
  all: flag.bool('all', 'show unchanged objects, too'),
} satisfies FlagTable;

const explainFlags = {
  output: outputFlag(FORMATS),
  namespace: namespaceOption('the namespace of the object, as in kubectl'),
  exitCode,
} satisfies FlagTable;

const uiFlags = {
  namespace: namespaceOption('show only rules in this namespace; needs permissions only in this namespace'),
  out: flag.text('out', 'file', 'write the page with the data of this moment into a file, and end'),
  redact: flag.bool('redact', 'with --out: other names, and no messages, hosts and Vault paths'),
  port: flag.count('port', 0, 0, MAX_PORT, 'port on 127.0.0.1; 0: any free port'),
  open: flag.bool('open', 'open the browser; --open=false does not', true),
} satisfies FlagTable;

export function shortCommands({ actions, build, stdout, processInfo: { env } }: CliContext): readonly Command[] {
  const print = (text: string): typeof EXIT_DONE => {
    stdout(text);
    return EXIT_DONE;
  };
  return [
    shortCommand(
      {
        ...described('crds', 'print all CustomResourceDefinitions as YAML'),
        sections: {},
        action: () => actions.crds(),
      },
      env,
    ),
    shortCommand(
      {
        ...reading('status', 'show what is copied, what is not copied, and why', statusFlags),
        notes: NOT_READY_CODES,
        action: async ({ values, texts }) => {
          const { allNamespaces, namespace, ...options } = values.own;
          if (options.watch && options.exitCode) throw new UsageError('--exit-code has no effect with --watch');
          if (options.watch && options.orphans) throw new UsageError('--orphans has no effect with --watch');
          if (options.output === 'name' && !options.orphans) throw new UsageError('-o name needs --orphans');
          const place = allNamespaces ? undefined : namespace;
          const { config, ...cluster } = configured(values, texts);
          // A rule of any controller may use an orphan, also of a controller that does not run.
          const all = options.orphans ? { ...config, controllers: [...CONTROLLERS] } : config;
          return await actions.status({ ...options, ...cluster, config: all, namespace: place });
        },
      },
      env,
    ),
    shortCommand(
      {
        ...reading(
          'plan',
          'show what manifests would change, without applying them; without manifests: what a start of Keyferry would',
          planFlags,
        ),
        operands: '[files...]',
        operandHelp: [['files', 'manifests or folders of manifests; - for standard input']],
        most: Infinity,
        notes: 'Exit codes: 0 success, 1 failure, 2 usage error, 3 a copy would be lost or refused.',
        action: async ({ values, texts, rest }) => {
          const { filename, ...options } = values.own;
          const files = [...rest, ...filename];
          return await actions.plan({ ...options, ...configured(values, texts), files });
        },
      },
      env,
    ),
    shortCommand(
      {
        ...reading(
          'explain',
          'show why an object exists, which rule owns it and when it was written, or why it does not exist',
          explainFlags,
        ),
        operands: '<kind> <place>',
        kinds: EXPLAINED_KINDS,
        operandHelp: [
          ['kind', 'secret, configmap, or the kind of a rule: secretmirror, externalsecret, syncsecret'],
          ['place', 'NAMESPACE/NAME, or NAME with -n; or KIND/NAME in one word'],
        ],
        needs: ['kind'],
        most: 2,
        notes: NOT_READY_CODES,
        action: async ({ values, texts, rest: [first = '', second] }) => {
          const { namespace, ...options } = values.own;
          // Like kubectl, the command also takes KIND/NAME.
          const [kind = '', ...rest] = second === undefined ? first.split('/') : [first, second];
          if (rest.length === 0) throw new UsageError("missing required argument 'place'");
          const place = [...(namespace === undefined ? [] : [namespace]), ...rest].join('/');
          return await actions.explain({ ...options, ...configured(values, texts), kind, place });
        },
      },
      env,
    ),
    shortCommand(
      {
        ...reading('ui', 'show on a page in the browser what is copied where, and what is wrong', uiFlags),
        action: async ({ values, texts }) => {
          const { redact, out, ...options } = values.own;
          if (redact && out === undefined) throw new UsageError('--redact needs --out');
          return await actions.ui({ ...options, redact, out, ...configured(values, texts) });
        },
      },
      env,
    ),
    shortCommand(
      {
        ...described('version', 'print version and commit of Keyferry, and the version of Node'),
        sections: { own: { output: outputFlag(FORMATS) } },
        action: async ({ values }) => {
          const { versionText } = await import('./version-report.ts');
          return print(versionText(build, values.own.output));
        },
      },
      env,
    ),
    shortCommand(
      {
        ...described('completion', 'print a script that completes command lines in a shell'),
        sections: {},
        operands: '<shell>',
        words: SHELLS,
        needs: ['shell'],
        action: async ({ rest: [shell] }) => print(SCRIPTS[shell as Shell]),
      },
      env,
    ),
  ];
}

function described(name: keyof typeof EXAMPLES, summary: string) {
  return { name, summary, examples: EXAMPLES[name] };
}

/** A command that reads rules from a cluster, and evaluates them with the operator's code. */
function reading<Own extends FlagTable>(name: keyof typeof EXAMPLES, summary: string, own: Own) {
  return {
    ...described(name, summary),
    sections: { own, cluster: clusterFlags, ...readingFlags },
  };
}

/** The cluster, and the settings of the rules. @throws UsageError: flags exclude each other */
function configured(
  { cluster, ...values }: SectionValues<{ cluster: typeof clusterFlags } & typeof readingFlags>,
  texts: ReadonlyMap<string, string>,
) {
  return { ...cluster, config: readingConfig(values, texts) };
}
