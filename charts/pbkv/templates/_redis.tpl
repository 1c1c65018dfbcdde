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

{{- define "pbkv.redis.port" -}}
{{- if eq .Values.redis.mode "internal" -}}6379{{- else -}}{{ .Values.redis.external.port }}{{- end -}}
{{- end }}

{{- define "pbkv.redis.sentinel" -}}
{{- if and (eq .Values.redis.mode "external") .Values.redis.external.sentinel.enabled -}}true{{- end -}}
{{- end }}

{{/* What stands between the credentials and the options: host:port/database, or sentinel,sentinel/master/database. */}}
{{- define "pbkv.redis.place" -}}
{{- $external := .Values.redis.external -}}
{{- $place := printf "%s-redis:6379" (include "pbkv.fullname" .) -}}
{{- if include "pbkv.redis.sentinel" . -}}
{{- $hosts := list -}}
{{- range $external.sentinel.hosts -}}
{{- $hosts = append $hosts (printf "%s:%v" . $external.sentinel.port) -}}
{{- end -}}
{{- $place = printf "%s/%s" (join "," $hosts) $external.sentinel.masterName -}}
{{- else if eq .Values.redis.mode "external" -}}
{{- $place = printf "%s:%v" $external.host $external.port -}}
{{- end -}}
{{ $place }}/{{ .Values.redis.database }}
{{- end }}

{{- define "pbkv.redis.tls" -}}
{{- if and (eq .Values.redis.mode "external") .Values.redis.external.tls.enabled -}}true{{- end -}}
{{- end }}

{{/* The environment of a container: passwords, then the variable called `name`. Takes {root, name}.
     Kubernetes fills in $(PBKV_REDIS_PASSWORD) at the start of the container; pbkv.redis_url reads a
     password as it is, whatever it holds. */}}
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
{{- $sentinel := include "pbkv.redis.sentinel" .root }}
{{- $options := list }}
{{- with .root.Values.redis.external.sentinel }}
{{- if and $sentinel .existingSecret }}
{{- $options = append $options "sentinel_password=$(PBKV_SENTINEL_PASSWORD)" }}
- name: PBKV_SENTINEL_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ .existingSecret }}
      key: {{ .secretKey }}
{{- end }}
{{- end }}
{{- $tls := include "pbkv.redis.tls" .root }}
{{- if and $tls .root.Values.redis.external.tls.caSecret }}
{{- $options = append $options "ssl_ca_certs=/etc/pbkv/redis-ca/ca.crt" }}
{{- end }}
{{- $scheme := printf "%s%s" (ternary "rediss" "redis" (eq $tls "true")) (ternary "+sentinel" "" (eq $sentinel "true")) }}
{{- $query := join "&" $options }}
- name: {{ .name }}
  value: {{ printf "%s://%s%s%s%s" $scheme $auth (include "pbkv.redis.place" .root) (ternary "?" "" (ne $query "")) $query | quote }}
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
