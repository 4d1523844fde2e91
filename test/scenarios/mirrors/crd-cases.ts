/** Specs of SecretMirrors that the API server must accept, and specs that it must refuse with a given message. */

/** A spec as a user could write it, valid or not. */
export type AnySpec = Readonly<Record<string, unknown>> | undefined;

const NAMED_TOKEN = { token: { secretRef: { name: 'vault-token' } } };
const BLOCK = { addr: 'https://vault.example.com', path: 'secret/data/app', auth: NAMED_TOKEN };

const toNamespaces = (...namespaces: readonly string[]): AnySpec => ({ destination: { namespaces } });
/** The spec of a SecretMirror that selects all namespaces with the label tier=prod. */
const choosing = (
  change: Readonly<Record<string, unknown>>,
  source: Readonly<Record<string, unknown>> = {},
): AnySpec => ({
  source,
  destination: { namespaceSelector: { matchLabels: { tier: 'prod' } }, ...change },
});
const toVault = (change: Readonly<Record<string, unknown>>): AnySpec => ({
  destination: { type: 'vault', vault: { ...BLOCK, ...change } },
});
const fromVault = (vault: unknown): AnySpec => ({
  source: { type: 'vault', ...(vault === undefined ? {} : { vault }) },
  destination: { namespaces: ['a'] },
});
const withAuth = (auth: unknown): AnySpec => toVault({ auth });

const PATTERN = 'a destination namespace has a problem compiling: each must be a regular expression as RE2 knows them';
const ADDR =
  'spec.destination.vault.addr: Invalid value: destination.vault.addr must be a URL with http:// or https://';
const NAME =
  "must be a valid object name: lower case letters, digits, '-' and '.', with a letter or digit at both ends";

/** Specs that the CRD refuses: title, spec, and texts that the server's message must contain. */
export const REFUSED: readonly (readonly [string, AnySpec, ...string[]])[] = [
  ['no spec', undefined, 'spec: Required value: spec must be specified'],
  ['no destination', {}, 'spec.destination.namespaces: Required value: destination namespaces are empty'],
  [
    'an empty list of namespaces',
    toNamespaces(),
    'spec.destination.namespaces: Required value: destination namespaces are empty',
  ],
  [
    'an empty name in the list of namespaces',
    toNamespaces(''),
    'spec.destination.namespaces: Required value: destination namespace #0 is empty',
  ],
  ['an empty name among other namespaces', toNamespaces('a', 'b', ''), 'destination namespace #2 is empty'],
  [
    'an invalid pattern of namespaces',
    toNamespaces('a', 'b('),
    `spec.destination.namespaces: Invalid value: error parsing regexp: missing closing ): \`b(\` evaluating rule: ${PATTERN}`,
  ],
  ['a pattern that RE2 does not support', toNamespaces('(?=a)'), '`(?=`', PATTERN],
  ['too many patterns', toNamespaces(...Array<string>(1001).fill('a')), 'spec.destination.namespaces: Too many: 1001'],
  ['a pattern of 4,097 characters', toNamespaces('a'.repeat(4097)), 'spec.destination.namespaces[0]: Too long'],
  [
    'an unknown type of destination',
    { destination: { type: 'files', namespaces: ['a'] } },
    'spec.destination.type: Unsupported value: "files": supported values: "namespaces", "vault"',
  ],
  [
    'an unknown type of source',
    { source: { type: 'file' }, destination: { namespaces: ['a'] } },
    'spec.source.type: Unsupported value: "file": supported values: "secret", "vault"',
  ],
  [
    'the destination type vault but no vault block',
    { destination: { type: 'vault' } },
    'spec.destination.vault: Required value: destination.vault must be specified',
  ],
  [
    'an empty vault block at the destination',
    { destination: { type: 'vault', vault: {} } },
    'spec.destination.vault.addr: Required value: destination.vault.addr must be specified',
    'spec.destination.vault.path: Required value: destination.vault.path must be specified',
    'spec.destination.vault.auth: Required value: destination.vault.auth must specify one of approle, token or kubernetes',
  ],
  [
    'the source type vault but no vault block',
    fromVault(undefined),
    'spec.source.vault: Required value: source.vault must be specified',
  ],
  [
    'an empty vault block at the source',
    fromVault({}),
    'spec.source.vault.addr: Required value: source.vault.addr must be specified',
    'spec.source.vault.path: Required value: source.vault.path must be specified',
    'spec.source.vault.auth: Required value: source.vault.auth must specify one of approle, token or kubernetes',
  ],
  [
    'an empty address, path and login of Vault',
    toVault({ addr: '', path: '', auth: {} }),
    'destination.vault.addr must be specified',
    'destination.vault.path must be specified',
    'destination.vault.auth must specify one of approle, token or kubernetes',
  ],
  ['an address of Vault without scheme', toVault({ addr: 'vault.example.com' }), `${ADDR}, not "vault.example.com"`],
  ['an address of Vault with scheme ftp', toVault({ addr: 'ftp://vault' }), `${ADDR}, not "ftp://vault"`],
  ['an address of Vault without host', toVault({ addr: 'https://' }), `${ADDR}, not "https://"`],
  ['an address of Vault in several lines', toVault({ addr: 'https://a\nb' }), ADDR],
  [
    'an AppRole login without Secret',
    withAuth({ approle: {} }),
    'spec.destination.vault.auth.approle.secretRef.name: Required value: destination.vault.auth.approle.secretRef.name must be specified',
  ],
  [
    'a token login without Secret',
    withAuth({ token: { secretRef: { name: '' } } }),
    'spec.destination.vault.auth.token.secretRef.name: Required value: destination.vault.auth.token.secretRef.name must be specified',
  ],
  [
    'AppRole and token login without Secrets: the message is about the token',
    withAuth({ approle: {}, token: {} }),
    'destination.vault.auth.token.secretRef.name must be specified',
  ],
  [
    'a ServiceAccount login without its fields',
    withAuth({ kubernetes: {} }),
    'spec.destination.vault.auth.kubernetes.role: Required value',
    'spec.destination.vault.auth.kubernetes.serviceAccountRef: Required value',
  ],
  [
    'a ServiceAccount login with empty fields',
    withAuth({ kubernetes: { role: '', serviceAccountRef: { name: '' } } }),
    'spec.destination.vault.auth.kubernetes.role in body should be at least 1 chars long',
    'spec.destination.vault.auth.kubernetes.serviceAccountRef.name in body should be at least 1 chars long',
  ],
  [
    'an invalid name and namespace of the Secret with a token',
    withAuth({ token: { secretRef: { name: '../x', namespace: 'A' } } }),
    `spec.destination.vault.auth.token.secretRef.name: Invalid value: ${NAME}`,
    'spec.destination.vault.auth.token.secretRef.namespace: Invalid value: must be a valid namespace name',
  ],
  ['an unknown encoding', toVault({ encoding: 'hex' }), 'spec.destination.vault.encoding: Unsupported value: "hex"'],
  [
    'a CA bundle that is not PEM',
    toVault({ caBundle: 'L3RtcA==' }),
    'spec.destination.vault.caBundle: Invalid value: must hold PEM certificates',
  ],
  [
    'a Vault namespace with a line break',
    toVault({ namespace: 'a\nb' }),
    'spec.destination.vault.namespace in body should match',
  ],
  [
    'a Vault namespace of the login with a space',
    withAuth({ ...NAMED_TOKEN, namespace: 'a b' }),
    'spec.destination.vault.auth.namespace in body should match',
  ],
  [
    'a source name with invalid characters',
    { source: { name: 'My_Secret' }, destination: { namespaces: ['a'] } },
    `spec.source.name: Invalid value: ${NAME}`,
  ],
  [
    'a source name of 254 characters',
    { source: { name: 'a'.repeat(254) }, destination: { namespaces: ['a'] } },
    'spec.source.name: Too long: may not be more than 253 bytes',
  ],
  ...['kubernetes.io/service-account-token', 'bootstrap.kubernetes.io/token'].map(
    (secretType) =>
      [
        `copies of type ${secretType}`,
        { destination: { namespaces: ['a'], secretType } },
        'spec.destination.secretType: Invalid value: must not be kubernetes.io/service-account-token or bootstrap.kubernetes.io/token',
      ] as const,
  ),
  [
    'an empty name of a namespace beside a selector',
    choosing({ namespaces: [''] }),
    'spec.destination.namespaces: Required value: destination namespace #0 is empty',
  ],
  [
    'an empty name of an excluded namespace',
    choosing({ excludedNamespaces: [''] }),
    'spec.destination.excludedNamespaces: Invalid value: an excluded namespace is empty',
  ],
  [
    'an invalid pattern of excluded namespaces',
    choosing({ excludedNamespaces: ['b('] }),
    'an excluded namespace has a problem compiling',
  ],
  [
    'an unknown operator in the selector',
    choosing({ namespaceSelector: { matchExpressions: [{ key: 'a', operator: 'Gt', values: ['1'] }] } }),
    'spec.destination.namespaceSelector.matchExpressions[0].operator: Unsupported value: "Gt"',
  ],
  ...[
    { key: 'a', operator: 'In' },
    { key: 'a', operator: 'NotIn', values: [] },
    { key: 'a', operator: 'Exists', values: ['b'] },
  ].map(
    (requirement) =>
      [
        `a requirement in the selector with ${requirement.operator} and ${requirement.values?.length ?? 'no'} values`,
        choosing({ namespaceSelector: { matchExpressions: [requirement] } }),
        'In and NotIn need values; Exists and DoesNotExist have none',
      ] as const,
  ),
  [
    'an invalid label key in the selector',
    choosing({ namespaceSelector: { matchLabels: { 'a b': 'c' } } }),
    'spec.destination.namespaceSelector.matchLabels: Invalid value: each must be a valid key of a label',
  ],
  [
    'an invalid label value in the selector',
    choosing({ namespaceSelector: { matchLabels: { a: 'b c' } } }),
    'spec.destination.namespaceSelector.matchLabels.a in body should match',
  ],
  ['an invalid name for its copies', choosing({ name: 'My_Copy' }), `spec.destination.name: Invalid value: ${NAME}`],
  ['an empty list of keys', choosing({ keys: [] }), 'spec.destination.keys in body should have at least 1 items'],
  [
    'two keys that get the same name in the copies',
    choosing({ keys: [{ from: 'a' }, { from: 'b', to: 'a' }] }),
    'spec.destination.keys: Invalid value: two of the keys have the same name in the copies',
  ],
  [
    'an invalid name for a key of the copies',
    choosing({ keys: [{ from: 'a', to: 'b/c' }] }),
    'spec.destination.keys[0].to in body should match',
  ],
  [
    'an invalid label for its copies',
    choosing({ labels: { 'a b': 'c', d: 'e f' } }),
    'spec.destination.labels.d in body should match',
  ],
  [
    'an invalid annotation key for its copies',
    choosing({ annotations: { '/a': 'b' } }),
    'each must be a valid key of an annotation',
  ],
  ...['keyferry.dev/copy', 'mirrors.kts.studio/owned-by', 'x.example/replicate-from'].map(
    (key) =>
      [
        `the mark ${key} as a label for its copies`,
        choosing({ labels: { [key]: 'a' } }),
        'a label of Keyferry or of another copier cannot be set',
      ] as const,
  ),
  [
    'the annotation of kubectl apply for its copies',
    choosing({ annotations: { 'kubectl.kubernetes.io/last-applied-configuration': '{}' } }),
    'an annotation of Keyferry or of another copier cannot be set',
  ],
  ['an invalid copyLabels pattern', choosing({ copyLabels: ['('] }), 'a pattern in copyLabels has a problem compiling'],
  ...Object.entries({
    namespaceSelector: {},
    excludedNamespaces: ['a'],
    name: 'a',
    secretType: 'Opaque',
    labels: { a: 'b' },
    annotations: { a: 'b' },
    copyLabels: ['a'],
    copyAnnotations: ['a'],
  }).map(
    ([field, value]) =>
      [
        `${field} for a destination in Vault`,
        { destination: { type: 'vault', vault: BLOCK, [field]: value } },
        `spec.destination.${field}: Invalid value: destination.${field} is only for a destination of type namespaces`,
      ] as const,
  ),
  [
    'copyLabels for a source in Vault',
    { source: { type: 'vault', vault: BLOCK }, destination: { namespaces: ['a'], copyLabels: ['a'] } },
    'spec.destination.copyLabels: Invalid value: destination.copyLabels is not for Vault',
  ],
  [
    'a ConfigMap as source and Vault as destination',
    { source: { type: 'configmap' }, destination: { type: 'vault', vault: BLOCK } },
    'spec.destination.type: Invalid value: a ConfigMap can only be copied to namespaces',
  ],
  [
    'a secretType for copies of a ConfigMap',
    choosing({ secretType: 'Opaque' }, { type: 'configmap' }),
    'spec.destination.secretType: Invalid value: destination.secretType is not for ConfigMaps',
  ],
  [
    'an unknown deletePolicy',
    { destination: { namespaces: ['a'] }, deletePolicy: 'keep' },
    'spec.deletePolicy: Unsupported value: "keep": supported values: "delete", "retain"',
  ],
  [
    'a negative pollPeriodSeconds',
    { destination: { namespaces: ['a'] }, pollPeriodSeconds: -1 },
    'spec.pollPeriodSeconds: Invalid value: spec.pollPeriodSeconds in body should be greater than or equal to 0',
  ],
];

/** Specs that the CRD accepts: title and spec. */
export const ACCEPTED: readonly (readonly [string, AnySpec])[] = [
  ["no source: the source then has the mirror's name", toNamespaces('a')],
  ['an empty source name', { source: { name: '' }, destination: { namespaces: ['a'] } }],
  ['a source name of 253 characters', { source: { name: 'a'.repeat(253) }, destination: { namespaces: ['a'] } }],
  ['pollPeriodSeconds 0', { destination: { namespaces: ['a'] }, pollPeriodSeconds: 0 }],
  ['all syntax of RE2', toNamespaces('(?i)A\\d', '[[:alpha:]]+', '\\pL{1,5}', '^a$', '\\Aa\\z', '(?P<n>a)', '.*')],
  ['1,000 patterns of namespaces', toNamespaces(...Array<string>(1000).fill('team-(a|b|c)-.+'))],
  ['a pattern of 4,096 characters', toNamespaces('a'.repeat(4096))],
  ['a vault block that its destination type does not use', { destination: { namespaces: ['a'], vault: {} } }],
  ['a list of namespaces with destination Vault', { destination: { type: 'vault', namespaces: [], vault: BLOCK } }],
  ['an IPv6 address of Vault with port and path', toVault({ addr: 'http://[::1]:8200/base' })],
  ['a scheme in upper case in the address of Vault', toVault({ addr: 'HTTPS://vault.example.com' })],
  ['an AppRole without Secret beside a token', withAuth({ approle: { secretRef: { name: '' } }, ...NAMED_TOKEN })],
  ['a token without Secret beside an AppRole', withAuth({ approle: { secretRef: { name: 'a' } }, token: {} })],
  [
    'a ServiceAccount login, and an AppRole login without Secret',
    withAuth({ approle: {}, kubernetes: { role: 'r', serviceAccountRef: { name: 'app', audiences: ['vault'] } } }),
  ],
  ['a login in a Vault namespace of its own', withAuth({ ...NAMED_TOKEN, namespace: 'team' })],
  ['a token in another namespace', withAuth({ token: { secretRef: { name: 'vault.token', namespace: 'other' } } })],
  [
    'a source in Vault and all fields that fit it',
    {
      source: { type: 'vault', name: 'x', vault: { ...BLOCK, encoding: 'base64', namespace: 'team/a' } },
      destination: { namespaces: ['a'], secretType: 'kubernetes.io/tls' },
      deletePolicy: 'retain',
      pollPeriodSeconds: 5,
    },
  ],
  ['only a selector', choosing({})],
  ['a selector without requirements', choosing({ namespaceSelector: {} })],
  ['a selector and an empty list of namespaces', choosing({ namespaces: [] })],
  [
    'every field for its copies set',
    {
      source: { name: 'x' },
      destination: {
        namespaces: ['team-.+'],
        namespaceSelector: {
          matchLabels: { 'example.com/tier': 'prod', empty: '' },
          matchExpressions: [
            { key: 'a', operator: 'In', values: ['b', 'c'] },
            { key: 'example.com/d', operator: 'DoesNotExist' },
          ],
        },
        excludedNamespaces: ['team-x', 'team-.*-test'],
        name: 'y',
        keys: [{ from: 'tls.crt' }, { from: 'ca.crt', to: 'ca.pem', optional: true }],
        secretType: 'Opaque',
        labels: { 'argocd.argoproj.io/secret-type': 'repository', a: '' },
        annotations: { 'example.com/note': 'any text, also long' },
        copyLabels: ['app.*', 'argocd\\.argoproj\\.io/.*'],
        copyAnnotations: [],
      },
      suspend: true,
    },
  ],
  ['keys for a copy in Vault', { destination: { type: 'vault', vault: BLOCK, keys: [{ from: 'a', to: 'b' }] } }],
  ['a ConfigMap as source', choosing({ name: 'y', keys: [{ from: 'a' }] }, { type: 'configmap', name: 'x' })],
  [
    'a CA bundle in PEM',
    toVault({
      caBundle: '# the test CA\n-----BEGIN CERTIFICATE-----\nMII=\n-----END CERTIFICATE-----\n',
      tlsServerName: 'vault',
    }),
  ],
];
