{{/* What all pods have in common. */}}

{{/* Takes {root}. Our own images; userId is that of the Dockerfile. */}}
{{- define "pbkv.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: {{ .root.Values.podSecurity.userId }}
runAsGroup: {{ .root.Values.podSecurity.userId }}
fsGroup: {{ .root.Values.podSecurity.userId }}
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "pbkv.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Head of a pod spec. Takes {root, serviceAccount, apiAccess}.
     Service links off: a Service called pbkv-router would become PBKV_ROUTER_PORT, which the
     router reads as a setting. */}}
{{- define "pbkv.podHead" -}}
serviceAccountName: {{ include "pbkv.fullname" .root }}{{ with .serviceAccount }}-{{ . }}{{ end }}
automountServiceAccountToken: {{ .apiAccess | default false }}
enableServiceLinks: false
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
securityContext:
  {{- include "pbkv.podSecurityContext" . | nindent 2 }}
{{- end }}

{{/* Where pods may run. Takes a map with nodeSelector, tolerations, affinity, priorityClassName, runtimeClassName. */}}
{{- define "pbkv.scheduling" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .runtimeClassName }}
runtimeClassName: {{ . }}
{{- end }}
{{- end }}

{{/* Grace period of whatever drains. */}}
{{- define "pbkv.gracePeriodSeconds" -}}
{{- add .Values.drain.limitSeconds .Values.drain.marginSeconds -}}
{{- end }}

{{/* A volume for scratch files: root file systems are read-only. Takes {size}. */}}
{{- define "pbkv.tmpVolume" -}}
- name: tmp
  emptyDir:
    sizeLimit: {{ .size }}
{{- end }}
