{{- define "skein.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "skein.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "skein.labels" -}}
{{ include "skein.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "skein.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ default .Chart.AppVersion .Values.image.tag }}
{{- end -}}
{{- end -}}

{{- define "skein.account" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "skein.name" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "skein.scheme" -}}
{{- if .Values.tls.existingSecret -}}https{{- else -}}http{{- end -}}
{{- end -}}

{{- define "skein.headless" -}}
{{ include "skein.name" . }}-nodes
{{- end -}}

{{/* The names of the nodes, which the certificate holds for. */}}
{{- define "skein.host" -}}
{{ include "skein.headless" . }}.{{ .Release.Namespace }}.svc
{{- end -}}

{{- define "skein.servers" -}}
{{- $all := list -}}
{{- range $i := until (int .Values.nodes.replicas) -}}
{{- $all = append $all (printf "%s://%s-node-%d.%s:8080" (include "skein.scheme" $) (include "skein.name" $) $i (include "skein.host" $)) -}}
{{- end -}}
{{- join "," $all -}}
{{- end -}}

{{/* Refuses what would only fail in the pods. */}}
{{- define "skein.check" -}}
{{- if and (not .Values.tls.existingSecret) (not .Values.tls.insecurePlaintext) -}}
{{- fail "tls.existingSecret is empty: tokens would pass in plain text; name a Secret of the type kubernetes.io/tls, or set tls.insecurePlaintext=true on a network that no one else can read" -}}
{{- end -}}
{{- if eq .Values.mode "cluster" -}}
{{- if not .Values.database.existingSecret -}}
{{- fail "database.existingSecret is empty: name the Secret with the address of PostgreSQL, or set mode=single" -}}
{{- end -}}
{{- if not .Values.tokens.existingSecret -}}
{{- fail "tokens.existingSecret is empty: name the Secret with the tokens of nodes and workers; the README says how to make them" -}}
{{- end -}}
{{- end -}}
{{- range $name, $value := .Values.settings -}}
{{- if has $name (list "db" "db_file" "api_token" "token_file" "secret_key_file" "tls_cert" "tls_key" "ca_cert" "insecure_plaintext" "listen" "name" "advertise" "data" "server" "roles" "drain" "slots" "group" "label" "health_listen") -}}
{{- fail (printf "settings.%s: the chart sets it by a value of its own; see the README" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "skein.podSecurity" -}}
runAsNonRoot: true
runAsUser: 999
runAsGroup: 999
fsGroup: 999
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "skein.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* Variables that all processes have. */}}
{{- define "skein.env" -}}
- {name: SKEIN_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
# A folder below the volume, because the volume itself belongs to root.
- {name: SKEIN_DATA, value: /var/lib/skein/data}
- {name: SKEIN_DRAIN, value: "{{ int .Values.drainSeconds }}s"}
{{- if not .Values.tls.existingSecret }}
- {name: SKEIN_INSECURE_PLAINTEXT, value: "true"}
{{- else if .Values.tls.ca }}
- {name: SKEIN_CA_CERT, value: /run/skein/tls/ca.crt}
{{- end }}
{{- range $name, $value := .Values.settings }}
- {name: {{ printf "SKEIN_%s" (upper $name) }}, value: {{ toString $value | quote }}}
{{- end }}
{{- end -}}

{{/* Variables of processes that listen for callers. */}}
{{- define "skein.serverEnv" -}}
- {name: SKEIN_LISTEN, value: "0.0.0.0:8080"}
{{- if .Values.tls.existingSecret }}
- {name: SKEIN_TLS_CERT, value: /run/skein/tls/tls.crt}
- {name: SKEIN_TLS_KEY, value: /run/skein/tls/tls.key}
{{- end }}
{{- if .Values.secretKey.existingSecret }}
- {name: SKEIN_SECRET_KEY_FILE, value: /run/skein/key/secret.key}
{{- end }}
{{- end -}}

{{- define "skein.serverMounts" -}}
- {name: data, mountPath: /var/lib/skein}
- {name: tmp, mountPath: /tmp}
{{- if .Values.tls.existingSecret }}
- {name: tls, mountPath: /run/skein/tls, readOnly: true}
{{- end }}
{{- if .Values.secretKey.existingSecret }}
- {name: key, mountPath: /run/skein/key, readOnly: true}
{{- end }}
{{- end -}}

{{- define "skein.serverVolumes" -}}
{{- if .Values.tls.existingSecret }}
- name: tls
  secret: {secretName: {{ .Values.tls.existingSecret }}, defaultMode: 0440}
{{- end }}
{{- if .Values.secretKey.existingSecret }}
- name: key
  secret:
    secretName: {{ .Values.secretKey.existingSecret }}
    defaultMode: 0440
    items: [{key: {{ .Values.secretKey.key }}, path: secret.key}]
{{- end }}
{{- end -}}

{{/* Probes of a port: a dict of port and scheme. A start may take long: it may raise the format of a large database. */}}
{{- define "skein.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: {{ .port }}, scheme: {{ .scheme }}}
  periodSeconds: 2
  failureThreshold: 300
livenessProbe:
  httpGet: {path: /livez, port: {{ .port }}, scheme: {{ .scheme }}}
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: {path: /readyz, port: {{ .port }}, scheme: {{ .scheme }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- end -}}

{{/* What pods have in common: a dict of root and of (the values of nodes, workers or single). */}}
{{- define "skein.pod" -}}
serviceAccountName: {{ include "skein.account" .root }}
automountServiceAccountToken: false
# Variables of services, such as SKEIN_PORT, look like settings.
enableServiceLinks: false
# The drain, and ten seconds to end.
terminationGracePeriodSeconds: {{ add .root.Values.drainSeconds 20 }}
securityContext:
  {{- include "skein.podSecurity" .root | nindent 2 }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .of.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* The claim for the data folder of each pod. */}}
{{- define "skein.claims" -}}
- apiVersion: v1
  kind: PersistentVolumeClaim
  metadata:
    name: data
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .className }}
    storageClassName: {{ . }}
    {{- end }}
    resources: {requests: {storage: {{ .size }}}}
{{- end -}}
