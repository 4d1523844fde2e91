{{- define "keyferry.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "keyferry.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- else if contains (include "keyferry.name" .) .Release.Name }}
{{- .Release.Name | trunc 63 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "keyferry.name" .) | trunc 63 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "keyferry.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- define "keyferry.selector" -}}
app.kubernetes.io/name: {{ include "keyferry.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "keyferry.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "keyferry.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "keyferry.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "keyferry.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.create is false, so serviceAccount.name has to name a ServiceAccount. It gets the rights to all Secrets, so it is never the namespace's default one" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* The subjects of a binding: only the ServiceAccount of the release. */}}
{{- define "keyferry.subjects" -}}
- kind: ServiceAccount
  name: {{ include "keyferry.serviceAccountName" . }}
  namespace: {{ include "keyferry.namespace" . }}
{{- end }}

{{- define "keyferry.image" -}}
{{- $repository := required "image.repository names the image, and it has no default because no image is published yet. docs/install.md builds one; then: --set image.repository=YOUR-REGISTRY/keyferry" .Values.image.repository }}
{{- with default .Values.image.registry .Values.global.imageRegistry }}{{ $repository = printf "%s/%s" . $repository }}{{ end }}
{{- if .Values.image.digest }}
{{- printf "%s@%s" $repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" $repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* The Secrets with logins for the registry: those of the chart, and those of a parent chart, which are names or objects. */}}
{{- define "keyferry.imagePullSecrets" -}}
{{- $secrets := list }}
{{- range concat .Values.imagePullSecrets .Values.global.imagePullSecrets }}
{{- $secrets = append $secrets (ternary (dict "name" .) . (kindIs "string" .)) }}
{{- end }}
{{- with uniq $secrets }}{{ toYaml . }}{{ end }}
{{- end }}

{{/*
The chosen systems and their values, as JSON. Values that are set as in the charts of the original programs have precedence: annotationsPrefix and
others of k8s-replicator, and `kubelb` of the KubeLB CCM.
*/}}
{{- define "keyferry.systems" -}}
{{- $values := .Values }}
{{- $replicator := deepCopy .Values.replicator }}
{{- $hasOriginal := hasKey .Values "createWithLabels" }}
{{- range $key := list "annotationsPrefix" "allowAll" "ignoreUnknown" "resyncPeriod" "runReplicators" }}
{{- if hasKey $values $key }}{{ $_ := set $replicator $key (get $values $key) }}{{ $hasOriginal = true }}{{ end }}
{{- end }}
{{- /* In the chart of k8s-replicator, an empty text means no labels. */}}
{{- if hasKey .Values "createWithLabels" }}{{ $_ := set $replicator "createWithLabels" (.Values.createWithLabels | default "none") }}{{ end }}
{{- if kindIs "invalid" $replicator.enabled }}{{ $_ := set $replicator "enabled" $hasOriginal }}{{ end }}
{{- $ccm := deepCopy .Values.syncSecret.ccm }}
{{- $kubelb := default dict .Values.kubelb }}
{{- if $kubelb.tenantName }}{{ $_ := set $ccm "clusterName" $kubelb.tenantName }}{{ $_ := set $ccm "enabled" true }}{{ end }}
{{- if $kubelb.clusterSecretName }}{{ $_ := set $ccm "kubeconfigSecret" $kubelb.clusterSecretName }}{{ end }}
{{- if hasKey $kubelb "enableSecretSynchronizer" }}{{ $_ := set $ccm "secretSynchronizer" $kubelb.enableSecretSynchronizer }}{{ end }}
{{- $mirrors := .Values.mirrors.enabled }}
{{- if kindIs "invalid" $mirrors }}{{ $mirrors = not (or $replicator.enabled .Values.syncSecret.manager.enabled $ccm.enabled .Values.generator.enabled .Values.reflector.enabled .Values.configSyncer.enabled .Values.mittwald.enabled) }}{{ end }}
{{- $controllers := list }}
{{- if $mirrors }}{{ $controllers = append $controllers "mirrors" }}{{ end }}
{{- if $replicator.enabled }}{{ $controllers = append $controllers "replicator" }}{{ end }}
{{- if .Values.reflector.enabled }}{{ $controllers = append $controllers "reflector" }}{{ end }}
{{- if .Values.configSyncer.enabled }}{{ $controllers = append $controllers "config-syncer" }}{{ end }}
{{- if .Values.mittwald.enabled }}{{ $controllers = append $controllers "mittwald" }}{{ end }}
{{- if .Values.syncSecret.manager.enabled }}{{ $controllers = append $controllers "syncsecret-manager" }}{{ end }}
{{- if $ccm.enabled }}{{ $controllers = append $controllers "syncsecret-ccm" }}{{ end }}
{{- if and $ccm.enabled $ccm.secretSynchronizer }}{{ $controllers = append $controllers "syncsecret-synchronizer" }}{{ end }}
{{- if .Values.generator.enabled }}{{ $controllers = append $controllers "generator" }}{{ end }}
{{- if not $controllers }}{{ fail "no system is on: set mirrors.enabled, replicator.enabled, reflector.enabled, configSyncer.enabled, mittwald.enabled, syncSecret.manager.enabled, syncSecret.ccm.enabled or generator.enabled" }}{{ end }}
{{- if and .Values.namespaces (or .Values.syncSecret.manager.enabled $ccm.enabled) }}{{ fail "namespaces: SyncSecrets need the permissions of a ClusterRole, because tenants come and go; install the chart once more for them" }}{{ end }}
{{- /* Without this value, Keyferry would serve all namespaces. */}}
{{- if .Values.namespaceSelector }}{{ fail "there is no namespaceSelector any more: list the namespaces in namespaces" }}{{ end }}
{{- if and .Values.namespaces .Values.limits.requireConsent }}{{ fail "limits.requireConsent: with namespaces, Keyferry reads no annotations of namespaces" }}{{ end }}
{{- if and $ccm.enabled (not $ccm.clusterName) }}{{ fail "syncSecret.ccm.clusterName must be the name of the tenant" }}{{ end }}
{{- toJson (dict "controllers" $controllers "replicator" $replicator "ccm" $ccm) }}
{{- end }}

{{/*
The rules of files in files/rules for a Role. Rules for cluster-wide kinds are left out.
*/}}
{{- define "keyferry.namespacedRules" -}}
{{- $rules := list }}
{{- range .files }}
{{- range $.root.Files.Get (printf "files/rules/%s.yaml" .) | fromYamlArray }}
{{- if not (or (has "clustersecretstores" .resources) (has "customresourcedefinitions" .resources) (has "namespaces" .resources)) }}
{{- $rules = append $rules . }}
{{- end }}
{{- end }}
{{- end }}
{{- toYaml $rules }}
{{- end }}

{{/* To warn of objects that kubernetes-replicator copies, and Keyferry does not. */}}
{{- define "keyferry.unsupportedRules" -}}
{{- if and .Values.mittwald.enabled .Values.mittwald.reportUnsupported }}
- apiGroups: [ rbac.authorization.k8s.io ]
  resources: [ roles, rolebindings ]
  verbs: [ list, watch ]
- apiGroups: [ '' ]
  resources: [ serviceaccounts ]
  verbs: [ list, watch ]
{{- end }}
{{- end }}

{{- define "keyferry.leaderElection" -}}
{{- $kubelb := default dict .Values.kubelb }}
{{- $isOn := .Values.leaderElection.enabled }}
{{- if hasKey $kubelb "enableLeaderElection" }}{{ $isOn = $kubelb.enableLeaderElection }}{{ end }}
{{- if and (not $isOn) (gt (int .Values.replicaCount) 1) }}{{ fail "replicaCount must be 1 without leaderElection.enabled" }}{{ end }}
{{- if $isOn }}true{{ end }}
{{- end }}

{{/*
Environment variables for the settings that `keyferry status` and the other commands need, too. A process that `kubectl exec` starts inherits them.
*/}}
{{- define "keyferry.settings" -}}
{{- $systems := include "keyferry.systems" . | fromJson }}
{{- $settings := list (list "CONTROLLERS" (join "," $systems.controllers)) }}
{{- if include "keyferry.leaderElection" . }}{{ $settings = append $settings (list "LEADER_ELECT_LEASE_NAME" (include "keyferry.fullname" .)) }}{{ end }}
{{- with .Values.namespaces }}{{ $settings = append $settings (list "NAMESPACES" (join "," .)) }}{{ end }}
{{- with .Values.limits }}
{{- range $name := list "sourceNamespaces" "destinationNamespaces" "excludedNamespaces" }}{{ range get $.Values.limits $name }}
{{- if regexMatch "^([^\\\\\\[:]|\\\\.)*[a-z0-9-][*]" . }}{{ fail (printf "limits.%s: %q is a regular expression, in which * repeats one character: for any text, write .*" $name .) }}{{ end }}
{{- end }}{{ end }}
{{- with .sourceNamespaces }}{{ $settings = append $settings (list "SOURCE_NAMESPACES" (join "," .)) }}{{ end }}
{{- with .destinationNamespaces }}{{ $settings = append $settings (list "DESTINATION_NAMESPACES" (join "," .)) }}{{ end }}
{{- with .excludedNamespaces }}{{ $settings = append $settings (list "EXCLUDED_NAMESPACES" (join "," .)) }}{{ end }}
{{- if .requireConsent }}{{ $settings = append $settings (list "REQUIRE_CONSENT" "true") }}{{ end }}
{{- if not .replicatorPush }}{{ $settings = append $settings (list "REPLICATOR_PUSH" "false") }}{{ end }}
{{- if and $.Values.reflector.enabled (not .reflectorPush) }}{{ $settings = append $settings (list "REFLECTOR_PUSH" "false") }}{{ end }}
{{- if and $.Values.mittwald.enabled (not .mittwaldPush) }}{{ $settings = append $settings (list "MITTWALD_PUSH" "false") }}{{ end }}
{{- end }}
{{- if .Values.adoptOrphans }}{{ $settings = append $settings (list "ADOPT_ORPHANS" "true") }}{{ end }}
{{- if and (has "mirrors" $systems.controllers) (ne .Values.mirrors.regex "full") }}{{ $settings = append $settings (list "MIRRORS_REGEX" .Values.mirrors.regex) }}{{ end }}
{{- with $systems.replicator }}{{ if .enabled }}
{{- if ne .annotationsPrefix "k8s-replicator" }}{{ $settings = append $settings (list "REPLICATOR_ANNOTATIONS_PREFIX" .annotationsPrefix) }}{{ end }}
{{- if .allowAll }}{{ $settings = append $settings (list "REPLICATOR_ALLOW_ALL" "true") }}{{ end }}
{{- if .ignoreUnknown }}{{ $settings = append $settings (list "REPLICATOR_IGNORE_UNKNOWN" "true") }}{{ end }}
{{- $kinds := .runReplicators }}{{ if kindIs "slice" $kinds }}{{ $kinds = join "," $kinds }}{{ end }}
{{- if ne $kinds "all" }}{{ $settings = append $settings (list "REPLICATOR_RUN_REPLICATORS" $kinds) }}{{ end }}
{{- end }}{{ end }}
{{- with .Values.reflector }}{{ if and .enabled .excludedNamespaces }}{{ $settings = append $settings (list "REFLECTOR_EXCLUDED_NAMESPACES" (join "," .excludedNamespaces)) }}{{ end }}{{ end }}
{{- with .Values.mittwald }}{{ if .enabled }}
{{- if .allowAll }}{{ $settings = append $settings (list "MITTWALD_ALLOW_ALL" "true") }}{{ end }}
{{- with .excludeNamespaces }}{{ $settings = append $settings (list "MITTWALD_EXCLUDE_NAMESPACES" (join "," .)) }}{{ end }}
{{- if not .secrets }}{{ $settings = append $settings (list "MITTWALD_REPLICATE_SECRETS" "false") }}{{ end }}
{{- if not .configMaps }}{{ $settings = append $settings (list "MITTWALD_REPLICATE_CONFIGMAPS" "false") }}{{ end }}
{{- if not .reportUnsupported }}{{ range list "ROLES" "ROLE_BINDINGS" "SERVICE_ACCOUNTS" }}{{ $settings = append $settings (list (printf "MITTWALD_REPLICATE_%s" .) "false") }}{{ end }}{{ end }}
{{- if ne .regex "whole" }}{{ $settings = append $settings (list "MITTWALD_REGEX" .regex) }}{{ end }}
{{- if .configMapsUngated }}{{ $settings = append $settings (list "MITTWALD_CONFIGMAPS_UNGATED" "true") }}{{ end }}
{{- if .mergeForeign }}{{ $settings = append $settings (list "MITTWALD_MERGE_FOREIGN" "true") }}{{ end }}
{{- end }}{{ end }}
{{- with .Values.configSyncer }}{{ if .enabled }}
{{- with .clusterName }}{{ $settings = append $settings (list "CONFIG_SYNCER_CLUSTER_NAME" .) }}{{ end }}
{{- with .sourceNamespace }}{{ $settings = append $settings (list "CONFIG_SYNCER_SOURCE_NAMESPACE" .) }}{{ end }}
{{- end }}{{ end }}
{{- if or .Values.syncSecret.manager.enabled $systems.ccm.enabled }}
{{- with .Values.syncSecret.propagateLabels }}{{ $settings = append $settings (list "SYNCSECRET_PROPAGATE_LABELS" (join "," .)) }}{{ end }}
{{- with .Values.syncSecret.propagateAnnotations }}{{ $settings = append $settings (list "SYNCSECRET_PROPAGATE_ANNOTATIONS" (join "," .)) }}{{ end }}
{{- end }}
{{- range $settings }}
- name: KEYFERRY_{{ first . }}
  value: {{ last . | quote }}
{{- end }}
{{- end }}

{{/* The other settings: the arguments of `keyferry run`, one on each line. */}}
{{- define "keyferry.args" -}}
{{- $systems := include "keyferry.systems" . | fromJson }}
{{- $args := list "run" (printf "--status-address=:%d" (int .Values.metrics.port)) }}
{{- $args = append $args (printf "--log-level=%s" (ternary "debug" (default .Values.logLevel (default dict .Values.kubelb).logLevel) (eq true (default dict .Values.kubelb).debug))) }}
{{- if include "keyferry.leaderElection" . }}{{ $args = append $args "--leader-elect" }}{{ end }}
{{- if and (has "mirrors" $systems.controllers) .Values.mirrors.allowCrossNamespaceAuth }}{{ $args = append $args "--allow-cross-namespace-auth" }}{{ end }}
{{- with $systems.replicator }}{{ if .enabled }}
{{- if ne .resyncPeriod "30m" }}{{ $args = append $args (printf "--replicator-resync-period=%s" .resyncPeriod) }}{{ end }}
{{- if ne .sourceGrace "5s" }}{{ $args = append $args (printf "--source-grace=%s" .sourceGrace) }}{{ end }}
{{- if eq .createWithLabels "none" }}{{ $args = append $args "--replicator-create-with-labels=" }}
{{- else if .createWithLabels }}{{ $args = append $args (printf "--replicator-create-with-labels=%s" .createWithLabels) }}{{ end }}
{{- end }}{{ end }}
{{- with $systems.ccm }}{{ if .enabled }}
{{- $args = concat $args (list (printf "--syncsecret-cluster-name=%s" .clusterName) "--syncsecret-kubelb-kubeconfig=/etc/keyferry/management/kubeconfig") }}
{{- end }}{{ end }}
{{- with .Values.configSyncer }}{{ if and .enabled .kubeconfigSecret }}{{ $args = append $args "--config-syncer-kubeconfig-file=/etc/keyferry/contexts/kubeconfig" }}{{ end }}{{ end }}
{{- with .Values.syncSecret.manager }}{{ if .enabled }}
{{- /* In one cluster with a CCM, the manager serves the namespaces of tenants alone. */}}
{{- with default (ternary (list "tenant-.*") list $systems.ccm.enabled) .servedNamespaces }}{{ $args = append $args (printf "--syncsecret-served-namespaces=%s" (join "," .)) }}{{ end }}
{{- end }}{{ end }}
{{- if .Values.generator.enabled }}
{{- if .Values.generator.all }}{{ $args = append $args "--generator-all" }}{{ end }}
{{- with .Values.generator.namespaces }}{{ $args = append $args (printf "--generator-namespaces=%s" (join "," .)) }}{{ end }}
{{- if ne .Values.generator.credentials "stores" }}{{ $args = append $args (printf "--generator-credentials=%s" .Values.generator.credentials) }}{{ end }}
{{- end }}
{{- with .Values.vault.addresses }}{{ $args = append $args (printf "--vault-addresses=%s" (join "," .)) }}{{ end }}
{{- if ne .Values.vault.timeout "60s" }}{{ $args = append $args (printf "--vault-timeout=%s" .Values.vault.timeout) }}{{ end }}
{{- range concat $args .Values.extraArgs }}
- {{ . | quote }}
{{- end }}
{{- end }}

{{/* The items of a CEL list of strings. */}}
{{- define "keyferry.celTexts" -}}
{{- $texts := list }}
{{- range . }}{{ $texts = append $texts (printf "'%s'" .) }}{{ end }}
{{- join ", " $texts }}
{{- end }}
