{{/* Names and labels. Every object is named RELEASE-pbkv-COMPONENT, or RELEASE-COMPONENT if the release is called pbkv. */}}

{{- define "pbkv.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" }}
{{- end }}

{{- define "pbkv.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{- $name := include "pbkv.name" . -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end -}}
{{- end }}

{{/* What selects the pods of a component; never changes over upgrades. Takes {root, component}. */}}
{{- define "pbkv.selector" -}}
app.kubernetes.io/name: {{ include "pbkv.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Labels of an object and of pods. Takes {root, component}. */}}
{{- define "pbkv.labels" -}}
{{ include "pbkv.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
app.kubernetes.io/part-of: pbkv
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Metadata of an object. Takes {root, component, suffix}. */}}
{{- define "pbkv.metadata" -}}
name: {{ include "pbkv.fullname" .root }}-{{ .suffix | default .component }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "pbkv.labels" . | nindent 2 }}
{{- end }}

{{/* repository:tag or repository@digest. Takes {root, image}. */}}
{{- define "pbkv.image" -}}
{{- if .image.digest -}}
{{ .image.repository }}@{{ .image.digest }}
{{- else -}}
{{ .image.repository }}:{{ .image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end }}
