{{/* How everything reaches Redis. The password is only ever in a Secret and in the environment. */}}

{{- define "pbkv.redis.secretName" -}}
{{- .Values.redis.auth.existingSecret | default (printf "%s-redis" (include "pbkv.fullname" .)) -}}
{{- end }}

{{- define "pbkv.redis.hasPassword" -}}
{{- if or (eq .Values.redis.mode "internal") .Values.redis.auth.existingSecret .Values.redis.auth.password -}}true{{- end -}}
{{- end }}

{{/* Whether the chart itself makes the Secret. */}}
{{- define "pbkv.redis.ownSecret" -}}
{{- if and (include "pbkv.redis.hasPassword" .) (not .Values.redis.auth.existingSecret) -}}true{{- end -}}
{{- end }}

{{- define "pbkv.redis.host" -}}
{{- if eq .Values.redis.mode "internal" -}}
{{ include "pbkv.fullname" . }}-redis
{{- else if .Values.redis.external.sentinel.enabled -}}
{{ include "pbkv.fullname" . }}-redis-proxy
{{- else -}}
{{ .Values.redis.external.host }}
{{- end -}}
{{- end }}

{{- define "pbkv.redis.port" -}}
{{- if or (eq .Values.redis.mode "internal") .Values.redis.external.sentinel.enabled -}}6379{{- else -}}{{ .Values.redis.external.port }}{{- end -}}
{{- end }}

{{- define "pbkv.redis.tls" -}}
{{- if and (eq .Values.redis.mode "external") .Values.redis.external.tls.enabled -}}true{{- end -}}
{{- end }}

{{/* The environment of a container: PBKV_REDIS_PASSWORD, then the variable called `name`. Takes {root, name}.
     Kubernetes fills in $(PBKV_REDIS_PASSWORD) at the start of the container. */}}
{{- define "pbkv.redis.env" -}}
{{- $auth := "" -}}
{{- if include "pbkv.redis.hasPassword" .root }}
{{- $auth = printf "%s:$(PBKV_REDIS_PASSWORD)@" .root.Values.redis.auth.username }}
- name: PBKV_REDIS_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ include "pbkv.redis.secretName" .root }}
      key: {{ .root.Values.redis.auth.secretKey }}
{{- end }}
{{- $tls := include "pbkv.redis.tls" .root }}
{{- $query := "" }}
{{- if and $tls .root.Values.redis.external.tls.caSecret }}
{{- $query = "?ssl_ca_certs=/etc/pbkv/redis-ca/ca.crt" }}
{{- end }}
- name: {{ .name }}
  value: {{ printf "%s://%s%s:%s/%v%s" (ternary "rediss" "redis" (eq $tls "true")) $auth (include "pbkv.redis.host" .root) (include "pbkv.redis.port" .root) .root.Values.redis.database $query | quote }}
{{- end }}

{{- define "pbkv.redis.volumeMounts" -}}
{{- if and (include "pbkv.redis.tls" .) .Values.redis.external.tls.caSecret }}
- name: redis-ca
  mountPath: /etc/pbkv/redis-ca
  readOnly: true
{{- end }}
{{- end }}

{{- define "pbkv.redis.volumes" -}}
{{- if and (include "pbkv.redis.tls" .) .Values.redis.external.tls.caSecret }}
- name: redis-ca
  secret:
    secretName: {{ .Values.redis.external.tls.caSecret }}
    items:
      - key: {{ .Values.redis.external.tls.caKey }}
        path: ca.crt
{{- end }}
{{- end }}
