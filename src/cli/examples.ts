/** Examples in the help of `status`, `plan` and so on. Examples of the other commands are in `config/commands.ts`. */
export const EXAMPLES = {
  crds: ['keyferry crds | kubectl apply --server-side -f -'],
  status: [
    'keyferry status',
    'keyferry status --failed',
    'keyferry status --failed --exit-code',
    'keyferry status -w --failed',
    'keyferry status -n default -o wide',
    'keyferry status --orphans',
    'keyferry status --orphans -o name | xargs -rL1 kubectl delete',
    'keyferry status -A -o yaml --leader-elect-lease-name=keyferry',
    "keyferry status -o json | jq '.rules[].failing[]'",
  ],
  plan: [
    'keyferry plan mirror.yaml',
    'keyferry plan --controllers mirrors,reflector',
    'keyferry plan --all mirror.yaml',
    'keyferry plan -f secret.yaml -f mirror.yaml',
    'keyferry plan -R manifests/',
    'kustomize build . | keyferry plan -',
    'keyferry plan mirror.yaml -o json',
  ],
  explain: [
    'keyferry explain secret team-a/mysecret',
    'keyferry explain secret mysecret -n team-a',
    'keyferry explain secretmirror default/mysecret-mirror',
    'keyferry explain externalsecret default/app -o yaml --exit-code',
  ],
  migrate: [
    'keyferry migrate',
    'keyferry migrate --from reflector',
    'keyferry migrate --from reflector --apply',
    'keyferry migrate --from k8s-replicator --apply --delete-leftovers',
    'keyferry migrate -o json | jq \'.programs[].findings[] | select(.verdict == "unsupported")\'',
  ],
  version: ['keyferry version', 'keyferry version -o json'],
  completion: [
    'source <(keyferry completion bash)',
    'keyferry completion zsh > "${fpath[1]}/_keyferry"',
    'keyferry completion fish > ~/.config/fish/completions/keyferry.fish',
  ],
} as const;

/** Example flags for all commands that read a cluster. The help shows each line after the command's first example. */
export const READING_EXAMPLES = [
  '--controllers=mirrors --namespaces=team-a,team-b --mirrors-regex=search',
  '--source-namespaces=platform --destination-namespaces=selector:tier=prod',
  '--excluded-namespaces=kube-.* --require-consent --replicator-push=false',
  '--replicator-allow-all --replicator-run-replicators=secret',
  '--replicator-annotations-prefix=example.com --replicator-ignore-unknown',
  '--reflector-excluded-namespaces=prod-* --reflector-push=false --adopt-orphans',
  '--syncsecret-propagate-labels=app --syncsecret-propagate-annotations=note',
  '--kubeconfig ~/.kube/prod --context admin@prod',
];

/** The help of the program itself. */
export const PROGRAM = {
  summary:
    'Copies Secrets and ConfigMaps between namespaces, and Secrets to and from Vault, and keeps every copy up to date.',
  examples: ['keyferry run', 'keyferry status --failed', 'keyferry plan mirror.yaml'],
  notes:
    'Exit codes: 0 success, 1 failure, 2 usage error, 3 (plan and migrate) a copy would be lost or refused, or (migrate) something needs a decision. With --exit-code, status and explain exit with 3 if a rule is not ready, or a copy that no rule wants is still there.',
};
