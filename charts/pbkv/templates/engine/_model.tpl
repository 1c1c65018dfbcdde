{{/* One model: its own values over those of `engine`. Takes {root, model}; to be read with fromYaml. */}}
{{- define "pbkv.model" -}}
{{- $shared := pick .root.Values.engine "policy" "policyOptions" "kvTokens" "contextLength" "hostRatio" "schedulePolicy" "maxRunningRequests" "chunkedPrefillSize" "extraArgs" "env" "resources" "shmSize" "nodeSelector" "tolerations" "affinity" "runtimeClassName" "priorityClassName" "podAnnotations" -}}
{{- $model := mergeOverwrite (deepCopy $shared) (deepCopy .model) -}}
{{- if eq .root.Values.engine.mode "cpu" -}}
{{- /* Nothing of a GPU node fits here, unless the model says so itself. */ -}}
{{- $_ := set $model "resources" (.model.resources | default .root.Values.engine.cpu.resources) -}}
{{- $_ := set $model "tolerations" (.model.tolerations | default list) -}}
{{- end -}}
{{- $_ := set $model "tp" (int (.model.tp | default 1)) -}}
{{- $_ := set $model "min" (int (dig "min" 1 (.model.replicas | default dict))) -}}
{{- $_ := set $model "max" (int (dig "max" $model.min (.model.replicas | default dict))) -}}
{{- if not .model.source -}}
{{- $_ := set $model "source" (printf "/models/%s" .model.name) -}}
{{- end -}}
{{- $_ := set $model "servedName" (.model.servedName | default .model.name) -}}
{{ toYaml $model }}
{{- end }}

{{/* Fields of services.settings.ReplicaSettings, but for those of the place. Takes {root, model}. */}}
{{- define "pbkv.replicaSettings" -}}
{{- $model := .model -}}
model: {{ $model.source | quote }}
served_model_name: {{ $model.servedName | quote }}
# Filled in by the replica from its own environment, so that no password stands here.
redis_url: $(PBKV_REDIS_URL)
host: 0.0.0.0
device: cuda
tp: {{ $model.tp }}
policy: {{ $model.policy | quote }}
{{- $options := deepCopy ($model.policyOptions | default dict) }}
{{- if .root.Values.trainer.enabled }}
{{- $_ := set $options "predictor" (include "pbkv.predictor" .root) }}
{{- $_ := set $options "predictor_checkpoint" "/checkpoints" }}
{{- end }}
{{- with $options }}
policy_options:
  {{- range $name, $value := . }}
  {{ $name }}: {{ toJson $value }}
  {{- end }}
{{- end }}
idle_timeout_s: {{ .root.Values.idleTimeoutSeconds }}
{{- with $model.kvTokens }}
kv_tokens: {{ int64 . }}
{{- end }}
{{- with $model.contextLength }}
context_length: {{ int64 . }}
{{- end }}
host_ratio: {{ $model.hostRatio }}
{{- with $model.schedulePolicy }}
schedule_policy: {{ . }}
{{- end }}
{{- with $model.maxRunningRequests }}
max_running_requests: {{ int64 . }}
{{- end }}
{{- with $model.chunkedPrefillSize }}
chunked_prefill_size: {{ int64 . }}
{{- end }}
{{- with $model.extraArgs }}
extra_args: {{ toJson . }}
{{- end }}
log_dir: /tmp/pbkv-logs
ready_timeout_s: {{ .root.Values.engine.readyTimeoutSeconds }}
drain_limit_s: {{ .root.Values.drain.limitSeconds }}
num_replicas: {{ $model.min }}
num_gpus: {{ $model.tp }}
{{- end }}

{{/* The engine's name of what the trainer publishes. */}}
{{- define "pbkv.predictor" -}}
{{- ternary "markov" "checkpoint" (eq .Values.trainer.family "markov") -}}
{{- end }}

{{/* serveConfigV2 of one model. Takes {root, model}. */}}
{{- define "pbkv.serveConfig" -}}
{{- $auto := .root.Values.engine.ray.autoscaling -}}
# Requests do not pass through these proxies; the operator asks them whether a worker serves.
proxy_location: EveryNode
http_options:
  port: 8000
applications:
  - name: {{ .model.name }}
    route_prefix: /{{ .model.name }}
    import_path: services.replica:build_app
    args:
      {{- include "pbkv.replicaSettings" . | nindent 6 }}
    deployments:
      - name: EngineReplica
        {{- if gt (int .model.max) (int .model.min) }}
        autoscaling_config:
          min_replicas: {{ .model.min }}
          max_replicas: {{ .model.max }}
          upscale_delay_s: {{ $auto.upscaleDelaySeconds }}
          downscale_delay_s: {{ $auto.downscaleDelaySeconds }}
          look_back_period_s: 20
          # Requests do not pass through Serve: only what replicas report can be scaled by.
          policy:
            policy_function: services.autoscaling:WorkflowAutoscaling
            policy_kwargs:
              target_active_fraction: {{ $auto.targetActiveFraction }}
              target_queued_requests: {{ $auto.targetQueuedRequests }}
              # While replicas drain, the load that they carry is not seen.
              drain_limit_s: {{ .root.Values.drain.limitSeconds }}
        {{- else }}
        num_replicas: {{ .model.min }}
        {{- end }}
{{- end }}

{{/* Pods that hold `replicas` replicas. Takes {root, replicas}. */}}
{{- define "pbkv.workerPods" -}}
{{- $each := int .root.Values.engine.ray.replicasPerPod -}}
{{- div (sub (add (int .replicas) $each) 1) $each -}}
{{- end }}

{{- define "pbkv.engineEnv" -}}
{{- include "pbkv.redis.env" (dict "root" .root "name" "PBKV_REDIS_URL") }}
- name: POD_IP
  valueFrom: {fieldRef: {fieldPath: status.podIP}}
- name: HOME
  value: /tmp
{{- if .root.Values.modelCache.enabled }}
- name: PBKV_CACHE_DIR
  value: /models
{{- else if eq .root.Values.engine.mode "ray" }}
- name: PBKV_CACHE_DIR
  value: /tmp/pbkv
{{- end }}
{{- with .model.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "pbkv.engineVolumeMounts" -}}
- name: tmp
  mountPath: /tmp
- name: shm
  mountPath: /dev/shm
{{- if or .root.Values.modelCache.enabled .model.download }}
- name: models
  mountPath: /models
{{- end }}
{{- if .root.Values.trainer.enabled }}
- name: checkpoints
  mountPath: /checkpoints
  readOnly: true
{{- end }}
{{- include "pbkv.redis.volumeMounts" .root }}
{{- end }}

{{- define "pbkv.engineVolumes" -}}
{{- include "pbkv.tmpVolume" (dict "size" .root.Values.engine.tmpSize) }}
- name: shm
  emptyDir:
    medium: Memory
    sizeLimit: {{ .model.shmSize }}
{{- if .root.Values.modelCache.enabled }}
- name: models
  persistentVolumeClaim:
    claimName: {{ .root.Values.modelCache.existingClaim | default (printf "%s-models" (include "pbkv.fullname" .root)) }}
{{- else if .model.download }}
- name: models
  emptyDir: {}
{{- end }}
{{- if .root.Values.trainer.enabled }}
- name: checkpoints
  persistentVolumeClaim:
    claimName: {{ include "pbkv.checkpointsClaim" .root }}
{{- end }}
{{- include "pbkv.redis.volumes" .root }}
{{- end }}

{{/* Fetches the model; several pods may do so at once on one volume, the hub's client locks. Takes {root, model, image}. */}}
{{- define "pbkv.downloadContainer" -}}
{{- with .model.download }}
- name: download
  image: {{ $.image }}
  command: [hf, download, {{ .repo | quote }}, --revision, {{ .revision | default "main" | quote }}, --local-dir, /models/{{ $.model.name }}]
  env:
    - name: HF_HOME
      value: /models/.hub
    {{- with $.root.Values.modelCache.tokenSecret }}
    - name: HF_TOKEN
      valueFrom:
        secretKeyRef:
          name: {{ . }}
          key: {{ $.root.Values.modelCache.tokenKey }}
    {{- end }}
  resources:
    requests: {cpu: "1", memory: 1Gi}
    limits: {memory: 4Gi}
  securityContext:
    {{- include "pbkv.containerSecurityContext" $ | nindent 4 }}
  volumeMounts:
    - name: tmp
      mountPath: /tmp
    - name: models
      mountPath: /models
{{- end }}
{{- end }}

{{/* Ends a pod only after its workflows. Bounded by the drain limit. */}}
{{- define "pbkv.leave" -}}
preStop:
  exec:
    command: [python, -m, services.fleet.leave, --limit-seconds, {{ .Values.drain.limitSeconds | quote }}]
{{- end }}
