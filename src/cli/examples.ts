/** The examples in the help of each command. */

export const PROGRAM_EXAMPLES = ['keyferry run', 'keyferry status --failed', 'keyferry plan mirror.yaml'];

export const STATUS_EXAMPLES = [
  'keyferry status',
  'keyferry status --failed',
  'keyferry status -w --failed',
  'keyferry status -n default -o wide',
  'keyferry status -A -o yaml',
  "keyferry status -o json | jq '.rules[].failing[]'",
  'keyferry status --namespaces=team-a,team-b --mirrors-regex=search',
  'keyferry status --source-namespaces=platform --destination-namespaces=selector:tier=prod',
  'keyferry status --excluded-namespaces=kube-.* --require-consent --replicator-push=false',
  'keyferry status --replicator-allow-all --replicator-run-replicators=secret',
  'keyferry status --replicator-annotations-prefix=example.com --replicator-ignore-unknown',
  'keyferry status --syncsecret-propagate-labels=app --syncsecret-propagate-annotations=note',
  'keyferry status --kubeconfig ~/.kube/prod --context admin@prod',
];

export const PLAN_EXAMPLES = [
  'keyferry plan mirror.yaml',
  'keyferry plan --all mirror.yaml',
  'keyferry plan -f secret.yaml -f mirror.yaml',
  'keyferry plan -R manifests/',
  'kustomize build . | keyferry plan -',
  'keyferry plan mirror.yaml -o json',
  'keyferry plan mirror.yaml --namespaces=team-a,team-b --mirrors-regex=search',
  'keyferry plan mirror.yaml --source-namespaces=platform --destination-namespaces=selector:tier=prod',
  'keyferry plan mirror.yaml --excluded-namespaces=kube-.* --require-consent --replicator-push=false',
  'keyferry plan source.yaml --replicator-allow-all --replicator-run-replicators=secret',
  'keyferry plan source.yaml --replicator-annotations-prefix=example.com --replicator-ignore-unknown',
  'keyferry plan secret.yaml --syncsecret-propagate-labels=app --syncsecret-propagate-annotations=note',
  'keyferry plan mirror.yaml --kubeconfig ~/.kube/prod --context admin@prod',
];

export const EXPLAIN_EXAMPLES = [
  'keyferry explain secret team-a/mysecret',
  'keyferry explain secret mysecret -n team-a',
  'keyferry explain secretmirror default/mysecret-mirror',
  'keyferry explain externalsecret default/app -o yaml',
  'keyferry explain secret team-a/mysecret --namespaces=team-a,team-b --mirrors-regex=search',
  'keyferry explain secret team-a/mysecret --source-namespaces=platform --destination-namespaces=selector:tier=prod',
  'keyferry explain secret team-a/mysecret --excluded-namespaces=kube-.* --require-consent --replicator-push=false',
  'keyferry explain configmap team-a/settings --replicator-allow-all --replicator-run-replicators=configmap',
  'keyferry explain secret team-a/tls --replicator-annotations-prefix=example.com --replicator-ignore-unknown',
  'keyferry explain syncsecret default/app --syncsecret-propagate-labels=app --syncsecret-propagate-annotations=note',
  'keyferry explain syncsecret default/app --kubeconfig ~/.kube/prod --context admin@prod',
];

export const MIGRATE_EXAMPLES = [
  'keyferry migrate',
  'keyferry migrate --from reflector',
  'keyferry migrate --from reflector --apply',
  'keyferry migrate --from k8s-replicator --apply --delete-leftovers',
  'keyferry migrate -o json | jq \'.programs[].findings[] | select(.verdict == "unsupported")\'',
  'keyferry migrate --namespaces=team-a,team-b --mirrors-regex=search',
  'keyferry migrate --source-namespaces=platform --destination-namespaces=selector:tier=prod',
  'keyferry migrate --excluded-namespaces=kube-.* --require-consent --replicator-push=false',
  'keyferry migrate --replicator-allow-all --replicator-run-replicators=secret',
  'keyferry migrate --replicator-annotations-prefix=example.com --replicator-ignore-unknown',
  'keyferry migrate --from kubelb --syncsecret-propagate-labels=app --syncsecret-propagate-annotations=note',
  'keyferry migrate --kubeconfig ~/.kube/prod --context admin@prod',
];

export const COMPLETION_EXAMPLES = [
  'source <(keyferry completion bash)',
  'keyferry completion zsh > "${fpath[1]}/_keyferry"',
  'keyferry completion fish > ~/.config/fish/completions/keyferry.fish',
];
