/** Examples in the help of `status`, `plan` and so on. Examples of the other commands are in `config/commands.ts`. */
export const EXAMPLES = {
  crds: ['keyferry crds | kubectl apply --server-side -f -'],
  status: [
    'keyferry status',
    'keyferry status --failed',
    'keyferry status -n team-a -o wide',
    'keyferry status --orphans -o name | xargs -rL1 kubectl delete',
    "keyferry status -o json | jq '.rules[].failing[]'",
  ],
  plan: [
    'keyferry plan mirror.yaml',
    'keyferry plan -R manifests/',
    'kustomize build . | keyferry plan -',
    'keyferry plan --controllers mirrors,reflector',
  ],
  explain: [
    'keyferry explain secret team-a/mysecret',
    'keyferry explain secret mysecret -n team-a',
    'keyferry explain secretmirror default/mysecret-mirror',
    'keyferry explain externalsecret default/app -o yaml --exit-code',
  ],
  ui: [
    'keyferry ui',
    'keyferry ui -n team-a',
    'keyferry ui --out report.html',
    'keyferry ui --out report.html --redact',
  ],
  version: ['keyferry version', 'keyferry version -o json'],
  completion: [
    'source <(keyferry completion bash)',
    'keyferry completion zsh > "${fpath[1]}/_keyferry"',
    'keyferry completion fish > ~/.config/fish/completions/keyferry.fish',
  ],
} as const;

/** The help of the program itself. */
export const PROGRAM = {
  summary:
    'Copies Secrets and ConfigMaps between namespaces, and Secrets to and from Vault, and keeps every copy up to date.',
  examples: ['keyferry status', 'keyferry explain secret team-a/mysecret', 'keyferry plan mirror.yaml', 'keyferry run'],
  notes:
    'Exit codes: 0 success, 1 failure, 2 usage error, 3 (plan) a copy would be lost or refused. With --exit-code, status and explain exit with 3 if a rule is not ready, or a copy that no rule wants is still there.',
};
